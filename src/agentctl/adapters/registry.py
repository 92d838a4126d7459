"""Find and load adapters by name. The only module that imports one.

An agent is described by a module of constants, its `agent.py`; `Agent` lists them. agentctl reads these
without importing the adapter, which it imports only when a process of the agent runs. A built-in agent
is a package here and one line in BUILT_IN. Other packages name their `agent.py`, or only the class of
their adapter, in the entry-point group `agentctl.adapters`.

Measured: the five built-in `agent.py` and their packages add 0.8 ms to a `list` of 39 ms. A generated
table would save that, at the price of a second place to look.
"""

from __future__ import annotations

import os
import sys

from agentctl.adapters import roots
from agentctl.errors import UsageError
from agentctl.light_typing import TYPE_CHECKING, Any, Iterator, Mapping, NamedTuple, Sequence, cast
from agentctl.truth.look import Look
from agentctl.truth.survey import AdapterEntry

if TYPE_CHECKING:
    from agentctl.adapters.base import Adapter

API = 1  # of `adapters.api`; an adapter for another number is refused
GROUP = "agentctl.adapters"
BUILT_IN: Mapping[str, str] = {
    "claude-code": "agentctl.adapters.claude_code.agent",
    "codex": "agentctl.adapters.codex.agent",
    "opencode": "agentctl.adapters.opencode.agent",
    "pi": "agentctl.adapters.pi.agent",
    "demo": "agentctl.adapters.demo.agent",
}
# Third parties' adapters that this process has imported: the package and its time, by adapter.
_imported: dict[str, tuple[str, int]] = {}


class Agent(NamedTuple):
    """The constants of an `agent.py`, by their names in lower case. All but ADAPTER may be left out."""

    adapter: str  # "package.module:Class"
    binary: str = ""  # the command that the user types
    # Names of the agent's processes and binaries: a cheap first sieve, `Adapter.owns` decides. A name
    # that ends in "#" matches all that begin so; "#.#.#" matches a version number. A wrapper's name
    # (`.claude-wrapped`) counts as the plain one.
    processes: frozenset[str] = frozenset()
    # The directory of its files: an environment variable, a default below the home, and, if the variable
    # names a directory of all programs (XDG), its own directory in there.
    root: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()  # environment variables that name its files; a service keeps them
    # Traces below `root` that show a live process under any name.
    pid_files: str = ""  # a directory of files that are named after their process: PID.json
    locks: str = ""  # files that a live process has locked: "locks/*", "data*.db-shm"
    first_files: tuple[str, ...] = ()  # below `root`: change when a session begins; the daemon watches
    # Environment variables that the agent sets for its tools. An agent that we launch must not see them.
    markers: frozenset[str] = frozenset()
    marker_prefixes: tuple[str, ...] = ()
    # By marker: variables that users set, too. Removed only with this value and only beside the marker.
    marker_values: Mapping[str, Mapping[str, str]] = {}

    def has_traces(self, look: Look) -> bool:
        return bool(self.root) and roots.has_traces(look, self.root, self.pid_files, self.locks)


class EntryPoint(NamedTuple):
    """An adapter that another package brings."""

    name: str
    target: str  # "package.agent", or "package:Class" without an agent.py
    package: str  # its dist-info folder

    @property
    def is_class(self) -> bool:
        return ":" in self.target


def find_adapters(only: Sequence[str] = (), path: Sequence[str] | None = None) -> list[AdapterEntry]:
    """Return all adapters, or those named. Raises UsageError for an unknown name."""
    others = {} if only and BUILT_IN.keys() >= set(only) else _find_others(path)
    unknown = [name for name in only if name not in BUILT_IN and name not in others]
    if unknown:
        names = ", ".join(sorted({*BUILT_IN, *others}))
        raise UsageError(f"no adapter named {unknown[0]!r}", f"known adapters: {names}")
    adapters = [_register_other(e) for name, e in others.items() if not only or name in only]
    chosen = [name for name in BUILT_IN if not only or name in only]
    return adapters + [_register(name, read_agent(BUILT_IN[name])) for name in chosen]


def load(name: str) -> Adapter:
    """Import an adapter. Raises UsageError for an unknown name, or if it has another API number."""
    (adapter,) = find_adapters([name])
    return cast("Adapter", adapter.load())


def find_agents(path: Sequence[str] | None = None) -> dict[str, Agent]:
    """Return what every agent.py says, by name. A third party's that cannot be imported is left out:
    every survey reports it, and what is asked here must not fail for it."""
    agents = {name: read_agent(module) for name, module in BUILT_IN.items()}
    for name, entry in _find_others(path).items():
        try:
            if not entry.is_class:
                agents[name] = read_agent(entry.target)
        except Exception:  # noqa: BLE001, S112 - code of others: it may raise anything
            continue
    return agents


def first_files(name: str, environ: Mapping[str, str]) -> list[str]:
    """Return where a built-in agent leaves its first trace, under any process name: `directory/*` for
    any change in the directory."""
    agent = read_agent(BUILT_IN[name]) if name in BUILT_IN else Agent("")
    root = roots.find_root(environ, agent.root) if agent.root else None
    return [f"{root}/{each}" for each in agent.first_files] if root else []


def read_agent(module: str) -> Agent:
    """Return the constants of an agent.py. Raises what importing it raises, and UsageError."""
    constants = vars(__import__(module, fromlist=["ADAPTER"]))
    if not isinstance(constants.get("ADAPTER"), str):
        raise UsageError(f"{module} has no ADAPTER", 'set it to "package.module:Class"')
    values: dict[str, Any] = {
        field: constants[field.upper()] for field in Agent._fields if field.upper() in constants
    }
    return Agent(**values)


def is_stale(entry: EntryPoint) -> bool:
    """Return True if the package was installed again since this process imported it."""
    return _imported.get(entry.name, stamp := _stamp(entry)) != stamp


def _register(name: str, agent: Agent) -> AdapterEntry:
    return AdapterEntry(name, agent.processes, lambda: _import(name, agent.adapter), agent.has_traces)


def _register_other(entry: EntryPoint) -> AdapterEntry:
    """Import nothing yet: code of others may fail or hang, so the survey imports it behind its fence."""

    def load() -> Adapter:
        _imported.setdefault(entry.name, _stamp(entry))
        return _import(entry.name, entry.target if entry.is_class else agent().adapter)

    def agent() -> Agent:
        _imported.setdefault(entry.name, _stamp(entry))
        return read_agent(entry.target)

    if entry.is_class:
        return AdapterEntry(entry.name, None, load)
    return AdapterEntry(
        entry.name,
        None,
        load,
        lambda look: agent().has_traces(look),
        lambda: frozenset(agent().processes),
    )


def _stamp(entry: EntryPoint) -> tuple[str, int]:
    try:
        return entry.package, os.stat(entry.package).st_ctime_ns
    except OSError:  # removed since
        return entry.package, 0


def _import(name: str, target: str) -> Adapter:
    module, _, attribute = target.partition(":")
    adapter = getattr(__import__(module, fromlist=[attribute]), attribute)()
    api = getattr(adapter, "api", API)
    if api != API:
        raise UsageError(
            f"adapter {name} is written for adapter API {api}; this agentctl has API {API}",
            f"install a version of {module.partition('.')[0]} for API {API}",
        )
    return cast("Adapter", adapter)


def _find_others(path: Sequence[str] | None) -> dict[str, EntryPoint]:
    """Return third parties' adapters by name. None replaces a built-in."""
    directories = dict.fromkeys(sys.path if path is None else path)
    entries = (entry for directory in directories for entry in entry_points(directory))
    others: dict[str, EntryPoint] = {}
    for entry in entries:
        if entry.name not in BUILT_IN:
            others.setdefault(entry.name, entry)  # the first on the path wins, as for modules
    return others


def entry_points(directory: str) -> list[EntryPoint]:
    """Return the adapters of the packages that are installed in this directory.

    Reads the dist-info folders: `importlib.metadata` takes 26 ms to import, three times the bare
    interpreter, at every `list`.
    """
    try:
        names = [n for n in os.listdir(directory or ".") if n.endswith(".dist-info")]
    except OSError:  # an entry of sys.path that does not exist is normal
        return []
    packages = (os.path.join(directory, name) for name in sorted(names))
    return [EntryPoint(*line, package) for package in packages for line in _read_group(package)]


def _read_group(package: str) -> Iterator[tuple[str, str]]:
    """Yield name and target of each entry point in our group."""
    try:
        with open(f"{package}/entry_points.txt", encoding="utf-8", errors="replace") as file:
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
