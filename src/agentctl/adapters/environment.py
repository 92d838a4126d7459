"""Remove the environment variables by which agents mark the processes that they start.

agentctl is often started from an agent's own shell. The agent that it launches must not see that agent's
markers: it would take itself for a part of the other one (an interactive Claude Code that inherits
CLAUDE_CODE_CHILD_SESSION keeps no transcript), and our search for leftovers would find it among the
other agent's tools. Settings of the user (directories, models, keys, proxies) stay.

Each agent's markers are in its `agent.py`.
"""

from __future__ import annotations

from agentctl.adapters.registry import find_agents
from agentctl.light_typing import Mapping, Sequence

SHARED = frozenset({"AI_AGENT"})  # set by several agents
OURS = frozenset({
    "AGENTCTL_ADAPTER", "AGENTCTL_BRANCH", "AGENTCTL_CWD", "AGENTCTL_EXIT_CODE", "AGENTCTL_GROUP",
    "AGENTCTL_FUSE_DIRECTORY", "AGENTCTL_FUSE_ID", "AGENTCTL_FUSE_LABEL", "AGENTCTL_HOOK",
    "AGENTCTL_LAUNCH_ID", "AGENTCTL_MODEL", "AGENTCTL_OUTCOME", "AGENTCTL_SESSION_ID",
})  # fmt: skip


def marker_names(path: Sequence[str] | None = None) -> frozenset[str]:
    """Return the markers of all agents, without those that are known by a prefix."""
    return SHARED.union(OURS, *(agent.markers for agent in find_agents(path).values()))


def scrub(
    environ: Mapping[str, str], path: Sequence[str] | None = None
) -> tuple[dict[str, str], list[str]]:
    """Return the environment without markers, and the names of the removed variables, sorted. `path`:
    where adapters are installed."""
    agents = find_agents(path).values()
    names = marker_names(path)
    prefixes = tuple(prefix for agent in agents for prefix in agent.marker_prefixes)
    removed = {name for name in environ if name in names or name.startswith(prefixes)}
    for marker, values in [each for agent in agents for each in agent.marker_values.items()]:
        if marker in environ:
            removed.update(name for name, value in values.items() if environ.get(name) == value)
    return {name: value for name, value in environ.items() if name not in removed}, sorted(removed)


def directory_variables(path: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the environment variables that say where agents keep their files."""
    agents = find_agents(path).values()
    return tuple(dict.fromkeys(name for agent in agents for name in agent.directories))
