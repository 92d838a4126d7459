"""The names of `functools` that our modules use, without importing it: that imports `collections`, and
takes a quarter of a bare interpreter's time. Both are the same code in C."""

from __future__ import annotations

TYPE_CHECKING = False  # a type checker takes it for True, by its name: see light_typing

if TYPE_CHECKING:
    from functools import cache as cache  # noqa: PLC0414 - each is for other modules to import
    from functools import lru_cache as lru_cache  # noqa: PLC0414
    from functools import partial as partial  # noqa: PLC0414
else:
    try:
        from _functools import _lru_cache_wrapper, partial
    except ImportError:  # an interpreter without the part in C
        from functools import cache, lru_cache, partial
    else:

        def lru_cache(size: int | None) -> object:
            """Remember the results of the last `size` different calls; None: of all."""
            return lambda function: _lru_cache_wrapper(function, size, False, _count_calls)

        def cache(function: object) -> object:
            """Remember the result of every different call."""
            return _lru_cache_wrapper(function, None, False, _count_calls)

        def _count_calls(*counts: object) -> tuple[object, ...]:
            return counts


__all__ = ["cache", "lru_cache", "partial"]
