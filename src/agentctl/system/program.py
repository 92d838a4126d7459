"""Which program a process runs, under any name of its binary.

An agent may run under an interpreter (node, bun, deno), an emulator (qemu, Rosetta) or a dynamic loader
(ld.so), and its binary may have another name: Nix makes it `.claude-wrapped`, a release archive
`codex-x86_64-unknown-linux-musl`. So a process counts by the plain name of the program that it runs.
"""

from __future__ import annotations

from agentctl.errors import SourceError
from agentctl.light_functools import lru_cache
from agentctl.light_typing import Iterator, NamedTuple, Sequence
from agentctl.system.proc import Process

# Interpreters of JavaScript, by binary. Node calls its main thread "MainThread", or since version 26
# "node-MainThread", and the kernel shows that name for the process.
SCRIPT_RUNTIMES = frozenset({"node", "nodejs", "bun", "deno", "node-MainThread", "MainThread"})
EMULATORS = ("qemu-", "rosetta", "box64", "FEX")
LOADERS = ("ld-linux", "ld-musl", "ld.so", "ld64")
# The names under which an emulator or a loader shows in the process table.
BINARY_RUNTIMES = frozenset({"qemu-#", "rosetta", "box64", "FEXInterpreter", "ld-#", "ld.so", "ld64#"})
# Options that take the next word as their value.
SCRIPT_OPTIONS = frozenset({
    "-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions",
    "--env-file",
})  # fmt: skip
LOADER_OPTIONS = frozenset({
    "--library-path", "--argv0", "--preload", "--audit", "--inhibit-rpath", "--glibc-hwcaps-prepend",
    "--glibc-hwcaps-mask",
})  # fmt: skip
EMULATOR_OPTIONS = frozenset({"-0", "-L", "-cpu", "-E", "-U", "-s", "-g"})
NAMES = 1024  # cached, for processes that look many times
SHIM = "agentctl-shim"  # the process name of the shim, the parent of a launched agent
KEEPER = "agentctl-room"  # the process name of the first process in a rehearsal's sandbox
WRAPPED = ("wrapped", "unwrapped")  # endings that Nix gives the binary behind its wrapper


class Program(NamedTuple):
    path: str  # of the binary or script; "": not known
    arguments: tuple[str, ...]  # the words after the path
    runtime: str = ""  # the plain name of its interpreter, emulator or loader; "": none

    @property
    def name(self) -> str:
        return plain_name(self.path)


def read_program(process: Process) -> Program:
    """Return the program that a process runs. Raises SourceError."""
    argv = process.argv
    binary = process.exe if process.exe is not None else next(iter(argv), "")
    return resolve_program(binary, argv)


def resolve_program(binary: str, argv: Sequence[str]) -> Program:
    """Return the program behind loaders, emulators and interpreters."""
    name, runtime = plain_name(binary), ""
    if _options_of(name) is None:  # the usual case, on the hot path
        return Program(binary, tuple(argv[1:]))
    words = list(argv[1:])
    while (options := _options_of(name)) is not None:
        runtime = name
        words = list(_after_options(words, options, name))
        if not words:
            return Program("", (), runtime)
        binary, *words = words
        name = plain_name(binary)
    return Program(binary, tuple(words), runtime)


@lru_cache(NAMES)
def plain_name(path: str) -> str:
    """Return `claude` for `/nix/store/…/.claude-wrapped`, `codex` for `codex (deleted)`."""
    name = path.rpartition("/")[2].removesuffix(" (deleted)")
    is_hidden, name = name.startswith("."), name.lstrip(".")
    stem, dash, rest = name.rpartition("-")
    # a process shows 15 characters of its name: ".opencode-wrapped" is ".opencode-wrapp"
    is_cut = is_hidden and rest and "wrapped".startswith(rest)
    return stem if dash and (rest in WRAPPED or is_cut) else name


def is_runtime(name: str) -> bool:
    return _options_of(name) is not None


def is_plain_bun(process: Process) -> bool:
    """Return whether a program that Bun compiled runs as plain Bun, with another script. OpenCode starts
    MCP servers and package installs like that, with its own binary."""
    try:
        return process.environ().get("BUN_BE_BUN") == "1"
    except SourceError:  # the kernel withholds it: go by the name
        return False


@lru_cache(NAMES)
def may_be_named(comm: str, names: frozenset[str]) -> bool:
    """Return whether a process or binary of this name may be one of these programs."""
    if comm in names:
        return True
    plain = plain_name(comm)
    if plain in names:
        return True
    if plain[:1].isdigit():
        # "#.#.#" stands for a binary named after its version (~/.local/share/claude/versions/2.1.325)
        return "#.#.#" in names and plain.count(".") >= 2
    # "codex-#" stands for every name with this prefix: releases are named after their target
    return plain.startswith(_prefixes(names))


@lru_cache(NAMES)
def _prefixes(names: frozenset[str]) -> tuple[str, ...]:
    return tuple(name[:-1] for name in names if name.endswith("#"))


@lru_cache(NAMES)
def _options_of(name: str) -> frozenset[str] | None:
    """Return the options with a value of a program that runs others; None for any other program."""
    if name in SCRIPT_RUNTIMES:
        return SCRIPT_OPTIONS
    if name.startswith(EMULATORS):
        return EMULATOR_OPTIONS
    if name.startswith(LOADERS):
        return LOADER_OPTIONS
    return None


def _after_options(words: Sequence[str], valued: frozenset[str], name: str) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word in valued:
            next(rest, None)
        elif not word.startswith("-") and not (name in SCRIPT_RUNTIMES and word == "run"):
            yield word
            yield from rest
