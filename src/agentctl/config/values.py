"""What a value of each kind must look like, wherever it was said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from agentctl.durations import seconds
from agentctl.errors import UsageError
from agentctl.paths import home

Kind = Literal["text", "program", "path", "length", "words", "number", "flag", "url", "events", "size"]
Environ = Mapping[str, str]
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
SMALLEST, LARGEST = 1 << 20, 1 << 50
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class Key(NamedTuple):
    """One setting that a person can make."""

    kind: Kind
    variable: str  # empty: there is none
    meaning: str
    example: str  # as it stands in the file
    default: Any = None
    choices: tuple[str, ...] = ()  # for a text, or each of several words; none: anything goes
    between: tuple[int, int] = (0, 2**31)  # for a number
    secret: bool = False  # is never shown


def checked(value: object, key: Key, environ: Environ) -> object:
    """The value as the program uses it. Raises UsageError."""
    try:
        found = _CHECKS[key.kind](value, environ)
        _refuse_strange(found, key)
    except ValueError as error:
        hint = f"example: {key.example}"
        if key.secret:
            raise UsageError("a text is wanted, in quotes", hint) from None
        raise UsageError(str(error), hint) from error
    return found


def _refuse_strange(found: object, key: Key) -> None:
    if key.choices:
        for word in found if isinstance(found, tuple) else (found,):
            if word not in key.choices:
                raise ValueError(f"{word!r} is not known here: {', '.join(key.choices)}")
    if key.kind == "text" and not key.secret and _strays(found):  # some of it is stored
        raise ValueError(f"not UTF-8 text: {found!r}")
    if key.kind == "number":
        low, high = key.between
        if not (isinstance(found, int) and low <= found <= high):
            raise ValueError(f"a whole number from {low} to {high} is wanted, not {found!r}")


def _strays(found: object) -> bool:
    """Whether there are bytes in it that are no text: a variable may hold any."""
    return isinstance(found, str) and any("\ud800" <= c <= "\udfff" for c in found)


def _text(value: object, _: Environ) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a text is wanted, in quotes, not {value!r}")  # noqa: TRY004 - one seam above
    if not value.strip() or "\0" in value:
        raise ValueError("empty" if not value.strip() else "a NUL in it")
    return value


def _program(value: object, environ: Environ) -> str:
    text = _text(value, environ)
    if text == "~" or text.startswith("~/"):
        return (home(environ) or "~") + text[1:]
    return text


def _path(value: object, environ: Environ) -> str:
    path = _program(value, environ)
    if not path.startswith("/"):
        raise ValueError(f"a path that begins with / or ~/ is wanted, not {path!r}")
    return path


def _length(value: object, environ: Environ) -> float:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return seconds(str(value) if plain else _text(value, environ))


def _size(value: object, environ: Environ) -> int:
    """Bytes; or a text with K, M or G behind the number."""
    if isinstance(value, int) and not isinstance(value, bool):
        bytes_ = value
    else:
        text = _text(value, environ).strip().upper().removesuffix("B")
        number, unit = (text[:-1], SIZES[text[-1:]]) if text[-1:] in SIZES else (text, 1)
        bytes_ = int(number) * unit if number.isascii() and number.isdigit() and len(number) < 16 else -1
    if not SMALLEST <= bytes_ < LARGEST:
        raise ValueError(f"a size of at least 1M is wanted, not {value!r}")
    return bytes_


def _words(value: object, environ: Environ) -> tuple[str, ...]:
    """A list; or one text, which is all that fits a variable, split as a shell would."""
    if isinstance(value, str):
        import shlex

        return tuple(shlex.split(_text(value, environ)))
    if not isinstance(value, list) or not all(
        isinstance(word, str) and "\0" not in word for word in value
    ):
        raise ValueError(f"a list of texts is wanted, not {value!r}")
    return tuple(value)


def _number(value: object, _: Environ) -> int:
    """A variable has only texts. A truth value is no number, whatever Python says."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value[:20])
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"a whole number is wanted, not {value!r}")  # noqa: TRY004 - one seam above
    return value


def _flag(value: object, _: Environ) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in (*YES, *NO):
        return value.lower() in YES
    raise ValueError(f"true or false is wanted, not {value!r}")


def _url(value: object, environ: Environ) -> str:
    """Is told in words of ours alone: an address may hold a password."""
    from agentctl.urls import parsed

    if not isinstance(value, str):
        raise ValueError("a web address is wanted, in quotes")  # noqa: TRY004 - one seam above
    parsed(_text(value, environ))
    return value


def _events(value: object, environ: Environ) -> tuple[str, ...]:
    from agentctl.truth.event_types import DELIVERABLE, USER, matching

    patterns = _words(value, environ)
    if not patterns:
        raise ValueError("no event: such a target would never be told of anything")
    for pattern in patterns:
        if not pattern.startswith(USER) and not matching(pattern, DELIVERABLE):
            raise ValueError(f"{pattern!r} is no event, and no pattern of one{_near(pattern)}")
    return patterns


def _near(pattern: str) -> str:
    from difflib import get_close_matches

    from agentctl.truth.event_types import DELIVERABLE

    near = get_close_matches(pattern, DELIVERABLE, 1, 0.5)
    return f": did you mean {near[0]}?" if near else ""


_CHECKS = {
    "text": _text,
    "program": _program,
    "path": _path,
    "length": _length,
    "size": _size,
    "words": _words,
    "number": _number,
    "flag": _flag,
    "url": _url,
    "events": _events,
}
