"""The script in a prompt: what the fake model must do. Text in, rounds out. Pure.

One request of a turn is one round. A tool call ends a round; its results begin the next one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agentctl.light_typing import Iterator

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
    """A directive is wrong. The model answers with status 400 and this message."""


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
    """A call of the tool that runs commands, under the name that the agent has for it."""

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


def parse_rounds(text: str) -> tuple[Round, ...]:
    """Return the rounds of a script, at least one. The last one has no calls: it is the answer. Raises
    BadScript."""
    rounds: list[Round] = []
    current = Round()
    for directive, _ in _find_directives(_unnest(text)):
        current = _apply(directive, current)
        if current.calls:
            rounds.append(current)
            current = Round()
    return (*rounds, current)


def strip_directives(text: str) -> str:
    """Return the text without its directives, on one line: an answer may quote it."""
    parts, at = [], 0
    whole = _unnest(text)
    try:
        for _, (start, end) in _find_directives(whole):
            parts.append(whole[at:start])
            at = end
    except BadScript:
        return ""
    return " ".join(DOUBLED.sub(" ", " ".join((*parts, whole[at:]))).split())


def find_round(script: tuple[Round, ...], results: int) -> int:
    """Return the number of the round to play after this many tool results."""
    for number, played in enumerate(script[:-1]):
        if results < len(played.calls):
            return number
        results -= len(played.calls)
    return len(script) - 1


def _unnest(text: str) -> str:
    """Return the text with [[…]] for {{…}}, if it has no [[…]]: it is the prompt of a sub-agent."""
    return text if OPENING.search(text) else NESTED.sub(r"[[\1]]", text)


def _find_directives(text: str) -> Iterator[tuple[_Directive, tuple[int, int]]]:
    at = 0
    while opening := OPENING.search(text, at):
        name, start = opening[1], opening.end()
        if name == "call":
            call, at = _parse_call(text, start)
            yield _Directive(name, "", call), (opening.start(), at)
            continue
        end = _find_closing(text, start)
        at = end + 2
        yield _Directive(name, text[start:end].removeprefix("=")), (opening.start(), at)


def _find_closing(text: str, start: int) -> int:
    depth = 1
    for bracket in BRACKETS.finditer(text, start):
        depth += 1 if bracket[0] == "[[" else -1
        if depth == 0:
            return bracket.start()
    raise BadScript(f"not closed: [[{text[start - 20 : start + 40]}")


def _parse_call(text: str, start: int) -> tuple[Call, int]:
    """The JSON is read by a JSON reader, because it may hold any bracket."""
    name, colon, _ = text[start:].removeprefix("=").partition(":")
    if not colon or not re.fullmatch(r"[\w.-]+", name):
        raise BadScript("a call is [[call=NAME:{json}]]")
    try:
        arguments, end = json.JSONDecoder().raw_decode(text, start + len(name) + 2)
    except ValueError as error:
        raise BadScript(f"[[call={name}:...]] is not JSON: {error}") from error
    if not isinstance(arguments, dict) or not text.startswith("]]", end):
        raise BadScript(f"[[call={name}:...]] needs one JSON object, then ]]")
    return Call(name, arguments), end + 2


def _apply(directive: _Directive, current: Round) -> Round:
    """Return the round with this directive added. Raises BadScript."""
    name, value = directive.name, directive.value
    match name:
        case "gate" | "silent" | "mute":
            if not value:
                raise BadScript(f"[[{name}]] needs a name")
            return replace(current, pauses=(*current.pauses, Pause(name, value)))
        case "stream":
            return replace(
                current, pauses=(*current.pauses, Pause("stream", seconds=_parse_seconds(value)))
            )
        case "hang":
            return replace(current, pauses=(*current.pauses, Pause("hang")))
        case "error" | "cut" | "fault":
            return replace(current, failures=(*current.failures, _parse_failure(name, value)))
        case "tool":
            return replace(current, calls=(Shell(value),))
        case "tools":
            return replace(current, calls=tuple(Shell(command) for command in value.split("|")))
        case "call" if directive.call:
            return replace(current, calls=(directive.call,))
        case "say":
            return replace(current, say=value)
        case "big":
            return replace(current, say=_make_text(_parse_count(value)))
        case "think":
            return replace(current, think=True)
        case "stop":
            return replace(current, stop=value)
    raise BadScript(f"no such directive: [[{name}]]")


def _parse_failure(kind: FailureKind, value: str) -> Failure:
    if kind != "error":
        return Failure(kind, times=_parse_count(value) if value else None)
    match = ERROR.fullmatch(value)
    if not match or int(match[1]) < 400:
        raise BadScript(f"[[error={value}]] is not an HTTP error")
    return Failure("error", int(match[1]), int(match[2]) if match[2] else None)


def _parse_seconds(value: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", value):
        raise BadScript(f"not a number of seconds: {value!r}")
    return float(value)


def _parse_count(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise BadScript(f"not a number: {value!r}")
    return int(value)


def _make_text(size: int) -> str:
    line = "all work and no play makes a model a dull model, and so it goes on and on and on\n"
    return (line * (size // len(line) + 1))[:size]
