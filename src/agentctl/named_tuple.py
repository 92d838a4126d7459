"""`typing.NamedTuple` without its checks, which cost three quarters of the time to create a class.

Our annotations are strings, because they are postponed. `typing.NamedTuple` compiles each of them to see
that it is a type. mypy sees that for us, and `list` creates fifty such classes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 14):  # 3.14 compiles nothing itself
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - for other modules to import
else:
    from collections import namedtuple

    GIVEN_TO_TUPLE = frozenset({"__module__", "__qualname__", "__annotations__"})

    class NamedTupleType(type):
        """Turns a class statement into a named tuple with the methods of the statement."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            fields = namespace.get("__annotations__", {})
            defaults = [namespace[field] for field in fields if field in namespace]
            result = namedtuple(name, fields, defaults=defaults, module=namespace["__module__"])  # noqa: PYI024
            result.__annotations__ = fields
            result.__qualname__ = namespace["__qualname__"]
            for key, value in namespace.items():
                if key not in GIVEN_TO_TUPLE and key not in fields:
                    setattr(result, key, value)
            return result

    class NamedTuple(metaclass=NamedTupleType):
        """The base of a class statement that lists fields, with defaults and methods if need be."""
