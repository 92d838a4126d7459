"""The names of `typing` and `collections.abc` that our modules use, without importing either.

To import `typing` takes a third of a bare interpreter's time, `collections` a fifth, and `list` runs in
less than four. mypy reads the originals. At run time the names of `typing` are stand-ins, because our
annotations are never evaluated; those of `collections.abc` are the originals, which the interpreter has
loaded by another name. A named tuple is created without what `collections` compiles for each.
"""

from __future__ import annotations

TYPE_CHECKING = False  # a type checker takes it for True, by its name

if TYPE_CHECKING:
    from collections.abc import Awaitable as Awaitable  # noqa: PLC0414 - all are for other modules
    from collections.abc import Callable as Callable  # noqa: PLC0414
    from collections.abc import Collection as Collection  # noqa: PLC0414
    from collections.abc import Container as Container  # noqa: PLC0414
    from collections.abc import Generator as Generator  # noqa: PLC0414
    from collections.abc import Hashable as Hashable  # noqa: PLC0414
    from collections.abc import Iterable as Iterable  # noqa: PLC0414
    from collections.abc import Iterator as Iterator  # noqa: PLC0414
    from collections.abc import Mapping as Mapping  # noqa: PLC0414
    from collections.abc import Sequence as Sequence  # noqa: PLC0414
    from collections.abc import Set as Set  # noqa: PLC0414, PYI025
    from typing import Any as Any  # noqa: PLC0414
    from typing import Generic as Generic  # noqa: PLC0414
    from typing import Literal as Literal  # noqa: PLC0414
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414
    from typing import NoReturn as NoReturn  # noqa: PLC0414
    from typing import Protocol as Protocol  # noqa: PLC0414
    from typing import TypeVar as TypeVar  # noqa: PLC0414
    from typing import cast as cast  # noqa: PLC0414
    from typing import overload as overload  # noqa: PLC0414
else:
    from _collections import _tuplegetter as field_getter
    from _collections_abc import (  # noqa: F401 - for other modules
        Awaitable,
        Callable,
        Collection,
        Container,
        Generator,
        Hashable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
        Set,
    )

    Any = NoReturn = Protocol = object

    class Literal:
        def __class_getitem__(cls, values: object) -> type:
            return str

    class Generic:
        def __class_getitem__(cls, kinds: object) -> type:
            return cls

    def TypeVar(*_: object, **__: object) -> type:  # noqa: N802 - the name in `typing`
        return object

    def cast(_: object, value: object) -> object:
        return value

    def overload(_: object) -> object:
        return None

    class Row(tuple):
        """What all named tuples share. The members are those of `collections.namedtuple`."""

        __slots__ = ()

        def __new__(cls, *values: object, **keywords: object) -> Row:
            """Create the constructor of a class at its first call: most classes have no instance in one
            run, and to compile a constructor takes longer than all the rest of a class."""
            fields = ", ".join(cls._fields)
            source = f"lambda _cls, {fields}: _new(_cls, ({fields},))"
            constructor = eval(source, {"_new": tuple.__new__, "__builtins__": {}})  # noqa: S307
            constructor.__name__ = "__new__"
            constructor.__qualname__ = f"{cls.__qualname__}.__new__"
            constructor.__defaults__ = tuple(cls._field_defaults.values())
            cls.__new__ = staticmethod(constructor)
            return constructor(cls, *values, **keywords)

        @classmethod
        def _make(cls, values: Iterable[object]) -> Row:
            row = tuple.__new__(cls, values)
            if len(row) != len(cls._fields):
                raise TypeError(f"{cls.__name__} takes {len(cls._fields)} values, not {len(row)}")
            return row

        def _replace(self, **keywords: object) -> Row:
            row = self._make(map(keywords.pop, self._fields, self))
            if keywords:
                raise TypeError(f"{type(self).__name__} has no field {next(iter(keywords))!r}")
            return row

        __replace__ = _replace  # for copy.replace

        def _asdict(self) -> dict[str, object]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            values = ", ".join(
                f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)
            )
            return f"{type(self).__name__}({values})"

        def __getnewargs__(self) -> tuple[object, ...]:
            return tuple(self)

    class NamedTupleType(type):
        """Turns a class statement into a named tuple with the methods of the statement."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            fields = tuple(namespace.get("__annotations__", ()))
            if not fields:  # Python 3.14 gives them only to a module with the import
                raise TypeError(
                    f"{name} has no fields: is `from __future__ import annotations` missing?"
                )
            namespace.setdefault("__doc__", f"{name}({', '.join(fields)})")
            namespace["_field_defaults"] = {
                field: namespace[field] for field in fields if field in namespace
            }
            namespace["_fields"] = namespace["__match_args__"] = fields
            namespace["__slots__"] = ()
            for index, field in enumerate(fields):
                namespace[field] = field_getter(index, field)
            return type(name, (Row,), namespace)

    class NamedTuple(metaclass=NamedTupleType):
        """The base of a class statement that lists fields, with defaults and methods if need be."""
