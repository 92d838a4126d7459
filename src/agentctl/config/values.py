"""Check and convert the value of a setting, from the file or from a variable."""

from __future__ import annotations

from agentctl.config.keys import Key
from agentctl.durations import parse_duration
from agentctl.errors import UsageError
from agentctl.light_typing import Any, Mapping
from agentctl.paths import home_directory

Environ = Mapping[str, str]
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
SMALLEST, LARGEST = 1 << 20, 1 << 50
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def check_value(value: object, key: Key[Any], environ: Environ) -> object:
    """Return the value as the program uses it. Raises UsageError."""
    try:
        checked = _CHECKS[key.kind](value, environ)
        _check_limits(checked, key)
    except ValueError as error:
        hint = f"example: {key.example}"
        if key.secret:
            raise UsageError("must be a text in quotes", hint) from None
        raise UsageError(str(error), hint) from error
    return checked


def _check_limits(value: object, key: Key[Any]) -> None:
    if key.choices:
        for word in value if isinstance(value, tuple) else (value,):
            if word not in key.choices:
                raise ValueError(f"{word!r} is not one of {', '.join(key.choices)}")
    if key.kind == "text" and not key.secret and _has_stray_bytes(value):  # some texts are stored
        raise ValueError(f"not UTF-8 text: {value!r}")
    if key.kind == "number":
        low, high = key.between
        if not (isinstance(value, int) and low <= value <= high):
            raise ValueError(f"must be a whole number from {low} to {high}, not {value!r}")


def _has_stray_bytes(value: object) -> bool:
    """Return True if the value has bytes that are not UTF-8: a variable may."""
    return isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value)


def _text(value: object, _: Environ) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a text in quotes, not {value!r}")  # noqa: TRY004 - check_value translates it
    if not value.strip() or "\0" in value:
        raise ValueError("empty" if not value.strip() else "has a NUL character")
    return value


def _program(value: object, environ: Environ) -> str:
    text = _text(value, environ)
    if text == "~" or text.startswith("~/"):
        return (home_directory(environ) or "~") + text[1:]
    return text


def _path(value: object, environ: Environ) -> str:
    path = _program(value, environ)
    if not path.startswith("/"):
        raise ValueError(f"must be a path that begins with / or ~/, not {path!r}")
    return path


def _length(value: object, environ: Environ) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return parse_duration(str(value) if is_number else _text(value, environ))


def _size(value: object, environ: Environ) -> int:
    """Return bytes, from a number or from a text with K, M or G after the number."""
    if isinstance(value, int) and not isinstance(value, bool):
        bytes_ = value
    else:
        text = _text(value, environ).strip().upper().removesuffix("B")
        number, unit = (text[:-1], SIZES[text[-1:]]) if text[-1:] in SIZES else (text, 1)
        bytes_ = int(number) * unit if number.isascii() and number.isdigit() and len(number) < 16 else -1
    if not SMALLEST <= bytes_ < LARGEST:
        raise ValueError(f"must be a size of at least 1M, not {value!r}")
    return bytes_


def _words(value: object, environ: Environ) -> tuple[str, ...]:
    """Return the words of a list, or of one text split as a shell does: a variable has only texts."""
    if isinstance(value, str):
        import shlex

        return tuple(shlex.split(_text(value, environ)))
    if not isinstance(value, list) or not all(
        isinstance(word, str) and "\0" not in word for word in value
    ):
        raise ValueError(f"must be a list of texts, not {value!r}")
    return tuple(value)


def _number(value: object, _: Environ) -> int:
    """Return a number, also from the text of a variable. In Python a bool is an int; here it is not."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value[:20])
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"must be a whole number, not {value!r}")  # noqa: TRY004 - check_value translates it
    return value


def _flag(value: object, _: Environ) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in (*YES, *NO):
        return value.lower() in YES
    raise ValueError(f"must be true or false, not {value!r}")


def _url(value: object, environ: Environ) -> str:
    """Return the address. Errors do not repeat it: it may have a password."""
    from agentctl.urls import parse_url

    if not isinstance(value, str):
        raise ValueError("must be a web address in quotes")  # noqa: TRY004 - check_value translates it
    parse_url(_text(value, environ))
    return value


def _events(value: object, environ: Environ) -> tuple[str, ...]:
    from agentctl.truth.event import DELIVERABLE, USER, match_types

    patterns = _words(value, environ)
    if not patterns:
        raise ValueError("must name at least one event")
    for pattern in patterns:
        if not pattern.startswith(USER) and not match_types(pattern, DELIVERABLE):
            raise ValueError(f"{pattern!r} matches no event{_suggest_event(pattern)}")
    return patterns


def _suggest_event(pattern: str) -> str:
    from difflib import get_close_matches

    from agentctl.truth.event import DELIVERABLE

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
