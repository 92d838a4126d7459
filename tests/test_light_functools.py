"""The names of `functools`, without its import."""

from __future__ import annotations

import functools
import subprocess
import sys

import agentctl.light_functools as light


def test_a_cached_function_runs_once_for_each_argument() -> None:
    calls: list[str] = []

    @light.cache
    def measure(word: str) -> int:
        calls.append(word)
        return len(word)

    assert [measure("one"), measure("three"), measure("one")] == [3, 5, 3]
    assert calls == ["one", "three"]
    measure.cache_clear()
    assert measure("one") == 3
    assert calls == ["one", "three", "one"]


def test_it_counts_its_calls_like_the_original() -> None:
    ours, theirs = light.lru_cache(2)(abs), functools.lru_cache(2)(abs)
    for number in (1, 2, 3, 1):
        ours(number), theirs(number)
    assert tuple(ours.cache_info()) == tuple(theirs.cache_info()) == (0, 4, 2, 2)


def test_a_partial_is_the_original() -> None:
    assert light.partial is functools.partial


def test_nothing_else_is_imported() -> None:
    program = """
import sys
import agentctl.light_functools
print({"functools", "collections"} & set(sys.modules))
"""
    ran = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "set()\n"
