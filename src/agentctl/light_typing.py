"""The names of `typing` that our modules use, without importing it.

To import `typing` takes a third of a bare interpreter's time, and `list` runs in four. mypy reads the
names of `typing` itself; at run time they are stand-ins, because our annotations are never evaluated. A
named tuple is created without the checks of `typing`, which compile each annotation.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # a type checker takes it for True, by its name

if TYPE_CHECKING:
    from typing import Any as Any  # noqa: PLC0414 - each is for other modules to import
    from typing import Generic as Generic  # noqa: PLC0414
    from typing import Literal as Literal  # noqa: PLC0414
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414
    from typing import NoReturn as NoReturn  # noqa: PLC0414
    from typing import Protocol as Protocol  # noqa: PLC0414
    from typing import TypeVar as TypeVar  # noqa: PLC0414
    from typing import cast as cast  # noqa: PLC0414
    from typing import overload as overload  # noqa: PLC0414
else:
    Any = NoReturn = Protocol = object

    class Literal:
        def __class_getitem__(cls, values: object) -> type:
            return str

    def cast(_: object, value: object) -> object:
        return value

    def overload(_: object) -> object:
        return None

    if sys.version_info >= (3, 14):  # there `typing` compiles nothing
        from typing import Generic, NamedTuple, TypeVar
    else:
        from collections import namedtuple

        class Generic:
            def __class_getitem__(cls, kinds: object) -> type:
                return cls

        def TypeVar(*_: object, **__: object) -> type:  # noqa: N802 - the name in `typing`
            return object

        GIVEN_TO_TUPLE = frozenset({"__module__", "__qualname__", "__annotations__"})

        class NamedTupleType(type):
            """Turns a class statement into a named tuple with the methods of the statement."""

            def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
                if not bases:
                    return super().__new__(cls, name, bases, namespace)
                fields = namespace.get("__annotations__", {})
                defaults = [namespace[field] for field in fields if field in namespace]
                result = namedtuple(  # noqa: PYI024
                    name, fields, defaults=defaults, module=namespace["__module__"]
                )
                result.__annotations__ = fields
                result.__qualname__ = namespace["__qualname__"]
                for key, value in namespace.items():
                    if key not in GIVEN_TO_TUPLE and key not in fields:
                        setattr(result, key, value)
                return result

        class NamedTuple(metaclass=NamedTupleType):
            """The base of a class statement that lists fields, with defaults and methods if need be."""
