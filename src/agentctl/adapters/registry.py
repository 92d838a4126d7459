"""Which adapters there are, by name. The only module that imports one.

Built-ins are known here by the process names they can have, so that an agent that is not running
costs no import. Others join through the entry-point group `agentctl.adapters`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from agentctl.adapters import roots
from agentctl.adapters.base import Adapter
from agentctl.errors import UsageError
from agentctl.system.program import BINARY_RUNTIMES, SCRIPT_RUNTIMES
from agentctl.truth.look import Look
from agentctl.truth.survey import Registered

GROUP = "agentctl.adapters"

RUNTIMES = SCRIPT_RUNTIMES | BINARY_RUNTIMES
# Names of processes and binaries per agent: a cheap first sieve; `owns` decides. A name that ends in "#"
# stands for all that begin so; "#.#.#" is a binary named after its version, as Claude's own installer
# makes them. A wrapper's name (`.claude-wrapped`) counts as the plain one.
COMMS: Mapping[str, frozenset[str]] = {
    "claude-code": frozenset({"claude", "claude.exe", "claude-#", "#.#.#"}) | RUNTIMES,
    "codex": frozenset({"codex", "codex-#", "codex.exe"}) | BINARY_RUNTIMES,
    "opencode": frozenset({"opencode", "opencode.exe", "opencode-#"}) | BINARY_RUNTIMES,
    "pi": frozenset({"pi", "pi-#", "pi_agent_rust"}) | RUNTIMES,
    "demo": frozenset({"demo-agent"}),
}
# Agents that can be recognised by their files, under any name.
TRACES: Mapping[str, Callable[[Look], bool]] = {
    "claude-code": roots.claude_leaves_traces,
    "codex": roots.codex_leaves_traces,
    "opencode": roots.opencode_leaves_traces,
}
BUILT_IN: Mapping[str, str] = {
    "claude-code": "agentctl.adapters.claude_code:ClaudeCode",
    "codex": "agentctl.adapters.codex:Codex",
    "opencode": "agentctl.adapters.opencode:OpenCode",
    "pi": "agentctl.adapters.pi:Pi",
    "demo": "agentctl.adapters.demo:Demo",
}


def registered(only: Sequence[str] = (), path: Sequence[str] | None = None) -> list[Registered]:
    """All adapters, or those named. Raises UsageError for a name nobody has."""
    targets = {**dict(_entry_points(sys.path if path is None else path)), **BUILT_IN}
    unknown = [name for name in only if name not in targets]
    if unknown:
        known = ", ".join(sorted(targets))
        raise UsageError(f"no adapter named {unknown[0]!r}", f"known adapters: {known}")
    return [_register(n, t) for n, t in targets.items() if not only or n in only]


def third_party(path: Sequence[str]) -> frozenset[str]:
    """Names of the adapters installed in these directories."""
    return frozenset(name for name, _ in _entry_points(list(dict.fromkeys(path))))


def load(name: str) -> Adapter:
    """Raises UsageError for a name nobody has."""
    (found,) = registered([name])
    return cast(Adapter, found.load())


def _register(name: str, target: str) -> Registered:
    if name in COMMS:
        return Registered(name, COMMS[name], lambda: _import(target), TRACES.get(name))
    # A third party's process names are known only to itself, and importing it is the survey's
    # business: behind the fence.
    return Registered(name, None, lambda: _import(target))


def _import(target: str) -> Adapter:
    module, _, attribute = target.partition(":")
    found = __import__(module, fromlist=[attribute])
    return cast(Adapter, getattr(found, attribute)())


def _entry_points(path: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(name, module:attribute) of installed third-party adapters.

    Read straight from the dist-info folders: `importlib.metadata` costs 26 ms to import, three times
    the bare interpreter, at every `list`.
    """
    for directory in path:
        try:
            names = [n for n in os.listdir(directory or ".") if n.endswith(".dist-info")]
        except OSError:  # a sys.path entry that does not exist is normal
            continue
        for name in names:
            yield from _group(os.path.join(directory, name, "entry_points.txt"))


def _group(path: str) -> Iterator[tuple[str, str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:  # most packages have no entry points
        return
    if f"[{GROUP}]" not in text:
        return
    section = text.partition(f"[{GROUP}]")[2].partition("\n[")[0]
    for line in section.splitlines():
        name, separator, target = line.partition("=")
        if separator:
            yield name.strip(), target.split("[")[0].strip()
