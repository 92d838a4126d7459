"""Read JSON, and quote strings, without importing `json`, which imports `re` and takes half as long as a
bare interpreter. `json` uses the same code in C. The client of the daemon needs this too, so nothing is
imported that the interpreter has not loaded."""

from __future__ import annotations

TYPE_CHECKING = False  # a type checker takes it for True, by its name: see light_typing

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

WHITE_SPACE = " \t\n\r"

try:
    from _json import encode_basestring_ascii as quote
    from _json import make_scanner
except ImportError:  # an interpreter without the part in C
    from json.encoder import encode_basestring_ascii as quote
    from json.scanner import make_scanner


class Decoder:
    """Decodes one JSON text. The arguments convert the digits of numbers, and NaN and Infinity."""

    strict, object_hook, object_pairs_hook = True, None, None  # for the scanner in C

    def __init__(
        self,
        parse_int: Callable[[str], Any] = int,
        parse_float: Callable[[str], Any] = float,
        parse_constant: Callable[[str], Any] = float,
    ) -> None:
        self.parse_int, self.parse_float, self.parse_constant = parse_int, parse_float, parse_constant
        self.memo: dict[str, str] = {}
        self._scan = make_scanner(self)  # type: ignore[arg-type] # a decoder by its attributes

    def decode(self, text: str) -> Any:
        """Raises ValueError if the text is not JSON, RecursionError if it is nested too deeply."""
        text = text.strip(WHITE_SPACE)
        try:
            value, end = self._scan(text, 0)
        except StopIteration as stop:
            raise ValueError(f"not JSON at character {stop.value}") from None
        if end != len(text):
            raise ValueError(f"more than one JSON value: character {end}")
        return value


decode = Decoder().decode


def encode(value: object, indent: int | None = None) -> str:
    """Return the JSON text of plain values. What is written all day writes its text itself."""
    from json import dumps

    return dumps(value, indent=indent)


__all__ = ["Decoder", "decode", "encode", "quote"]
