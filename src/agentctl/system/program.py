"""What a process runs, whatever its binary is called.

An agent may run under an interpreter (node, bun, deno), an emulator (qemu, Rosetta) or a dynamic loader
(ld.so), and its binary may have another name: Nix makes it `.claude-wrapped`, a release archive
`codex-x86_64-unknown-linux-musl`. So a process counts by the program that it runs, under that program's
plain name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from agentctl.errors import SourceError
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
NAMES = 1024  # remembered by whoever looks again and again
SHIM = "agentctl-shim"  # the name of our own process that is the parent of a launched agent
KEEPER = "agentctl-room"  # that of the first process in the room of a rehearsal
WRAPPED = ("wrapped", "unwrapped")  # what Nix appends to the binary behind its wrapper


class Program(NamedTuple):
    path: str  # of the binary or script; "" when nothing tells
    arguments: tuple[str, ...]  # the words after it
    runtime: str = ""  # the plain name of what runs it; "": it runs by itself

    @property
    def name(self) -> str:
        return plain_name(self.path)


def program_of(process: Process) -> Program:
    """Raises SourceError."""
    argv = process.argv
    binary = process.exe if process.exe is not None else next(iter(argv), "")
    return resolve_program(binary, argv)


def resolve_program(binary: str, argv: Sequence[str]) -> Program:
    """The program behind loaders, emulators and interpreters, from outside in."""
    name, runtime = plain_name(binary), ""
    if _options_of(name) is None:  # most, and asked of every candidate in every look
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
    """`claude` for `/nix/store/…/.claude-wrapped`, `codex` for `codex (deleted)`."""
    name = path.rpartition("/")[2].removesuffix(" (deleted)")
    hidden, name = name.startswith("."), name.lstrip(".")
    stem, dash, rest = name.rpartition("-")
    # a process shows 15 characters of its name: ".opencode-wrapped" is ".opencode-wrapp"
    cut = hidden and rest and "wrapped".startswith(rest)
    return stem if dash and (rest in WRAPPED or cut) else name


def is_runtime(name: str) -> bool:
    return _options_of(name) is not None


def acts_as_runtime(process: Process) -> bool:
    """Whether a program that Bun compiled was asked to be plain Bun: it runs a script of somebody else.
    OpenCode starts MCP servers and package installs like that, with its own binary."""
    try:
        return process.environ().get("BUN_BE_BUN") == "1"
    except SourceError:  # withheld: for all we know, it is what it is called
        return False


@lru_cache(NAMES)
def may_be_named(comm: str, names: frozenset[str]) -> bool:
    """Whether a process or binary of this name may be one of these programs."""
    if comm in names:
        return True
    plain = plain_name(comm)
    if plain in names:
        return True
    if plain[:1].isdigit():
        # "#.#.#" stands for a binary named after its version (~/.local/share/claude/versions/2.1.325)
        return "#.#.#" in names and plain.count(".") >= 2
    # "codex-#" stands for every name that begins so: the releases are named after their target
    return any(name.endswith("#") and plain.startswith(name[:-1]) for name in names)


@lru_cache(NAMES)
def _options_of(name: str) -> frozenset[str] | None:
    """Its options with a value, if it is one that runs other programs."""
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
