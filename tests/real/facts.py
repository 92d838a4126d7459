"""What differs between the agents where agentctl launches, stops and resumes them, as measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.real.pins import Pin


class Failing(NamedTuple):
    """A start that cannot work, and what the agent says of it."""

    says: str
    words: tuple[str, ...] = ()  # for launch
    without: str = ""  # a variable that is not set


class Asking(NamedTuple):
    """A turn of its TUI in which it asks before it does something."""

    script: str  # it makes the file FILE
    shows: str  # what is on the screen when it can be answered


class Facts(NamedTuple):
    unasked: tuple[str, ...]  # words for launch, so that commands run without a person
    model: str  # one to choose
    endings: Mapping[str, tuple[str, int]]  # outcome and exit code, while a command runs
    failing: Mapping[str, Failing]
    asking: Asking | None = None  # None: it never does
    late: bool = False  # whether it writes nothing before its first answer is complete
    collides: str | None = None  # what it says when it fails because another has started with it


_BY_ADAPTER = {
    "claude-code": Facts(
        unasked=("--permission-mode", "bypassPermissions"),
        model="claude-fake",
        endings={
            "success": ("completed", 0),
            "API error": ("failed", 1),
            "stop": ("interrupted", 0),
            "SIGINT": ("interrupted", 0),
            "SIGTERM": ("killed", 143),
            "SIGKILL": ("killed", -9),
        },
        failing={"no key": Failing("Not logged in", without="ANTHROPIC_API_KEY")},
        asking=Asking("[[tool=touch FILE]]", "Do you want to proceed?"),
    ),
    "codex": Facts(
        unasked=("--permission-mode", "danger-full-access"),
        model="gpt-fake",
        endings={
            "success": ("completed", 0),
            "API error": ("failed", 1),
            "stop": ("interrupted", 1),
            "SIGINT": ("interrupted", 1),
            "SIGTERM": ("killed", -15),
            "SIGKILL": ("killed", -9),
        },
        failing={"no key": Failing("LAB_KEY", without="LAB_KEY")},
        asking=Asking(
            '[[call=exec_command:{"cmd": "touch FILE", "sandbox_permissions": "require_escalated", '
            '"justification": "May I?"}]]',
            "Would you like to",
        ),
    ),
    "opencode": Facts(
        unasked=(),
        model="fake/fake-1",
        endings={
            "success": ("completed", 0),
            "API error": ("failed", 1),
            "stop": ("killed", -15),
            "SIGINT": ("killed", -2),
            "SIGTERM": ("killed", -15),
            "SIGKILL": ("killed", -9),
        },
        failing={"no such model": Failing("no-such-model", ("--model", "fake/no-such-model"))},
        asking=Asking("[[tool=touch FILE]]", "Permission required"),
        collides="database is locked",
    ),
    "pi": Facts(
        unasked=(),
        model="fake/fake-1",
        endings={
            "success": ("completed", 0),
            "API error": ("failed", 0),
            "stop": ("killed", 143),
            "SIGINT": ("killed", -2),
            "SIGTERM": ("killed", 143),
            "SIGKILL": ("killed", -9),
        },
        failing={
            "no such model": Failing("no-such", ("--model", "no-such-provider/no-such-model")),
            "no key": Failing("No API key", ("--model", "anthropic/claude-opus-4-5")),
        },
    ),
}


def facts_of(pin: Pin) -> Facts:
    facts = _BY_ADAPTER[pin.adapter]
    return facts._replace(late=True) if pin.name == "pi-old" else facts
