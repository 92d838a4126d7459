"""Read the usual words of a verb without `argparse`, whose import and parser take a sixth of `list`.

A verb that is typed all day has `QUICK`: its usual options, and the defaults of all. Any other word (an
abbreviation, `--option=value`, a mistake, `--help`) is left to the verb's parser, which also has the
messages. A test compares the two.
"""

from __future__ import annotations

from agentctl.errors import UsageError
from agentctl.light_typing import TYPE_CHECKING, Callable, Literal, Mapping, NamedTuple, Sequence, cast

if TYPE_CHECKING:
    from argparse import Namespace

COMMON = {"json": False, "deadline": None}  # the defaults of what most verbs have


class Options:
    """What `argparse` calls a Namespace: an attribute for each option."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.__dict__.update(values)


class QuickWords(NamedTuple):
    defaults: Mapping[str, object]  # of every option that the verb's parser has
    flags: Mapping[str, str] = {"--json": "json"}  # an option without a value, and its name
    values: Mapping[str, tuple[str, Callable[[str], object]]] = {}  # one with a value
    ids: Literal["none", "one", "some"] = "none"


def read_quickly(words: Sequence[str], quick: QuickWords) -> Namespace | None:
    """Return what the verb's parser would return, or None: ask it."""
    options, ids = dict(quick.defaults), list[str]()
    remaining = iter(words)
    for word in remaining:
        if word in quick.flags:
            options[quick.flags[word]] = True
        elif word in quick.values:
            name, convert = quick.values[word]
            value = next(remaining, "-")
            if value.startswith("-"):
                return None
            try:
                options[name] = convert(value)
            except UsageError:  # the parser's message names the option
                return None
        elif word.startswith("-"):
            return None
        else:
            ids.append(word)
    if quick.ids == "none":
        if ids:
            return None
    elif not ids or (quick.ids == "one" and len(ids) > 1):
        return None
    else:
        options["id"] = ids[0] if quick.ids == "one" else ids
    return cast("Namespace", Options(options))
