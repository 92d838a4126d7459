"""Split an agent's arguments into words and options."""

from __future__ import annotations

from agentctl.light_typing import NamedTuple, Sequence


class Arguments(NamedTuple):
    words: tuple[str, ...]  # neither an option nor an option's value
    options: tuple[tuple[str, str], ...]  # name and value, in order; value "": a switch

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def value(self, *names: str) -> str | None:
        """Return the value of the first of these options; None if none of them occurs."""
        return next((value for name, value in self.options if name in names), None)


def split(
    arguments: Sequence[str], valued: frozenset[str], *, attached: bool = False, dashes: bool = False
) -> Arguments:
    """Split the words after the program's name. Options in `valued` take the next word as their value.

    attached: a short option may have its value in the same word, as in `-mMODEL`.
    dashes: a value may begin with "-". Parsers differ: clap takes such a value, yargs does not.
    """
    words: list[str] = []
    options: list[tuple[str, str]] = []
    rest = list(reversed(arguments))
    while rest:
        word = rest.pop()
        if word == "--":
            words.extend(reversed(rest))
            break
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        name, value, is_complete = _split_word(word, attached=attached)
        if not is_complete and name in valued and rest and (dashes or not rest[-1].startswith("-")):
            value = rest.pop()
        options.append((name, value))
    return Arguments(tuple(words), tuple(options))


def _split_word(word: str, *, attached: bool) -> tuple[str, str, bool]:
    """Return the option's name, the value in the same word, and whether it has one there."""
    if attached and not word.startswith("--"):
        return word[:2], word[2:], len(word) > 2
    name, equals, value = word.partition("=")
    return name, value, bool(equals)
