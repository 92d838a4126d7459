"""What a prompt tells the fake model to do: text in, rounds out. Pure.

One request of a turn is one round. A tool call ends a round; its results begin the next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

DIRECTIVES = """\
[[gate=NAME]]          stream a word every 0.2 s until NAME is opened
[[silent=NAME]]        begin the answer, then say nothing until NAME is opened
[[mute=NAME]]          send not a single byte until NAME is opened
[[stream=SECONDS]]     stream words for that long
[[hang]]               one word, then nothing until the server stops
[[tool=CMD]]           call the agent's own shell tool with CMD
[[tools=CMD|CMD]]      several such calls in one message
[[call=NAME:{json}]]   call any tool
[[error=529]]          that HTTP status, every time; [[error=529x2]]: the first two times
[[cut]]                half an answer, then the connection closes; [[cut=2]]: the first two times
[[fault]]              half an answer, then an error event; [[fault=2]]: the first two times
[[say=TEXT]]           the text of the answer
[[big=BYTES]]          an answer of that size
[[think]]              some thinking first
[[stop=max_tokens]]    another reason to stop
A tool call ends a round: what stands before it belongs to it, what follows is played when its results
are back. In the prompt of a sub-agent write {{...}} for [[...]]."""

PauseKind = Literal["gate", "silent", "mute", "stream", "hang"]
FailureKind = Literal["error", "cut", "fault"]

OPENING = re.compile(r"\[\[([a-z]+)(?==|\]\])")
# In "]]]" the first bracket belongs to what is inside: [[tool=test [ a = a ]]]
BRACKETS = re.compile(r"\[\[|\]\](?!\])")
NESTED = re.compile(r"\{\{([a-z]+(?:=.*?)?)\}\}(?!\})", re.DOTALL)
DOUBLED = re.compile(r"\[\[+|\{\{+|\]\]+|\}\}+")
ERROR = re.compile(r"([1-9][0-9]{2})(?:x([0-9]{1,6}))?")


class BadScript(ValueError):
    """A directive that makes no sense: answered with a 400 that says so, never guessed at."""


@dataclass(frozen=True, slots=True)
class Pause:
    kind: PauseKind
    name: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    kind: FailureKind
    status: int = 0
    times: int | None = None  # None: every time


@dataclass(frozen=True, slots=True)
class Shell:
    """A call of whatever tool the agent has for commands."""

    command: str


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Round:
    pauses: tuple[Pause, ...] = ()
    failures: tuple[Failure, ...] = ()
    calls: tuple[Shell | Call, ...] = ()
    say: str | None = None
    think: bool = False
    stop: str = ""


@dataclass(slots=True)
class _Directive:
    name: str
    value: str
    call: Call | None = field(default=None)


def rounds(text: str) -> tuple[Round, ...]:
    """At least one; the last has no calls: it is the answer."""
    done: list[Round] = []
    now = Round()
    for directive, _ in _directives(_unnested(text)):
        now = _with(now, directive)
        if now.calls:
            done.append(now)
            now = Round()
    return (*done, now)


def plain(text: str) -> str:
    """The text without its directives, on one line: safe to be quoted in an answer."""
    kept, at = [], 0
    whole = _unnested(text)
    try:
        for _, (start, end) in _directives(whole):
            kept.append(whole[at:start])
            at = end
    except BadScript:
        return ""
    return " ".join(DOUBLED.sub(" ", " ".join((*kept, whole[at:]))).split())


def after(script: tuple[Round, ...], results: int) -> int:
    """The number of the round to play when so many tool results have come back."""
    for number, one in enumerate(script[:-1]):
        if results < len(one.calls):
            return number
        results -= len(one.calls)
    return len(script) - 1


def _unnested(text: str) -> str:
    """A sub-agent's prompt has none of the outer brackets, so the inner ones are meant for it."""
    return text if OPENING.search(text) else NESTED.sub(r"[[\1]]", text)


def _directives(text: str) -> Iterator[tuple[_Directive, tuple[int, int]]]:
    at = 0
    while found := OPENING.search(text, at):
        name, start = found[1], found.end()
        if name == "call":
            call, at = _call(text, start)
            yield _Directive(name, "", call), (found.start(), at)
            continue
        end = _closing(text, start)
        at = end + 2
        yield _Directive(name, text[start:end].removeprefix("=")), (found.start(), at)


def _closing(text: str, start: int) -> int:
    depth = 1
    for bracket in BRACKETS.finditer(text, start):
        depth += 1 if bracket[0] == "[[" else -1
        if depth == 0:
            return bracket.start()
    raise BadScript(f"not closed: [[{text[start - 20 : start + 40]}")


def _call(text: str, start: int) -> tuple[Call, int]:
    """The JSON is read by a JSON reader, because it may hold any bracket."""
    name, colon, _ = text[start:].removeprefix("=").partition(":")
    if not colon or not re.fullmatch(r"[\w.-]+", name):
        raise BadScript("a call is [[call=NAME:{json}]]")
    try:
        arguments, end = json.JSONDecoder().raw_decode(text, start + len(name) + 2)
    except ValueError as error:
        raise BadScript(f"[[call={name}:...]] is no JSON: {error}") from error
    if not isinstance(arguments, dict) or not text.startswith("]]", end):
        raise BadScript(f"[[call={name}:...]] wants one JSON object, then ]]")
    return Call(name, arguments), end + 2


def _with(now: Round, directive: _Directive) -> Round:
    name, value = directive.name, directive.value
    match name:
        case "gate" | "silent" | "mute":
            if not value:
                raise BadScript(f"[[{name}]] wants a name")
            return replace(now, pauses=(*now.pauses, Pause(name, value)))
        case "stream":
            return replace(now, pauses=(*now.pauses, Pause("stream", seconds=_seconds(value))))
        case "hang":
            return replace(now, pauses=(*now.pauses, Pause("hang")))
        case "error" | "cut" | "fault":
            return replace(now, failures=(*now.failures, _failure(name, value)))
        case "tool":
            return replace(now, calls=(Shell(value),))
        case "tools":
            return replace(now, calls=tuple(Shell(command) for command in value.split("|")))
        case "call" if directive.call:
            return replace(now, calls=(directive.call,))
        case "say":
            return replace(now, say=value)
        case "big":
            return replace(now, say=_big(_count(value)))
        case "think":
            return replace(now, think=True)
        case "stop":
            return replace(now, stop=value)
    raise BadScript(f"no such directive: [[{name}]]")


def _failure(kind: FailureKind, value: str) -> Failure:
    if kind != "error":
        return Failure(kind, times=_count(value) if value else None)
    found = ERROR.fullmatch(value)
    if not found or int(found[1]) < 400:
        raise BadScript(f"[[error={value}]] is no HTTP error")
    return Failure("error", int(found[1]), int(found[2]) if found[2] else None)


def _seconds(value: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", value):
        raise BadScript(f"not a number of seconds: {value!r}")
    return float(value)


def _count(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise BadScript(f"not a number: {value!r}")
    return int(value)


def _big(size: int) -> str:
    line = "all work and no play makes a model a dull model, and so it goes on and on and on\n"
    return (line * (size // len(line) + 1))[:size]
