"""What only Linux has is called in `system/` and by the shim: a port has one place to replace.

The test reads syntax trees, not text: docstrings and comments may name /proc.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentctl

SOURCE = Path(agentctl.__file__).parent
HOMES = ("system/", "launch/shim/")
# Functions and constants of the standard library that exist on Linux alone, by their first letters.
LINUX = (
    "pidfd_", "memfd_", "eventfd", "EFD_", "epoll", "EPOLL", "inotify", "signalfd", "timerfd",
    "unshare", "setns", "prctl", "SO_PEERCRED", "CLOCK_BOOTTIME", "O_PATH", "O_TMPFILE", "P_PIDFD",
    "CLONE_", "sched_",
)  # fmt: skip
MODULES = {"ctypes"}  # by it the C library is called
# Each with its reason.
ALLOWED = {
    "cli/fast_client.py": "imports none of our modules: a list through the daemon cannot afford them",
    "demo/agent.py": "a program of its own, which stands for an agent and imports nothing of ours",
    "rehearsal/sandbox.py": "builds the namespaces of doctor --live, which runs on Linux only",
    "testing/player.py": "a program of its own: a process that takes an agent's name and arguments",
}


def test_linux_is_called_in_system_and_in_the_shim_only() -> None:
    calls = {
        name: sorted(linux_calls(ast.parse(path.read_text(encoding="utf-8"))))
        for name, path in sources()
        if not name.startswith(HOMES) and name not in ALLOWED
    }
    assert {name: lines for name, lines in calls.items() if lines} == {}


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_every_exception_is_needed(name: str) -> None:
    assert list(linux_calls(ast.parse((SOURCE / name).read_text(encoding="utf-8"))))


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.pidfd_open(1)",
        "from os import memfd_create",
        "from select import epoll as poll",
        "import ctypes",
        "from ctypes import CDLL",
        "open('/proc/self/stat')",
        "open(f'/proc/{pid}/stat')",
        "x = b'/proc'",
        "getattr(os, 'pidfd_open')",
        "call('unshare', 0)",
        "def f():\n    'Read /proc.'\n    return '/proc/net/tcp'",
    ],
)
def test_a_call_is_seen(code: str) -> None:
    assert list(linux_calls(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "'''Read /proc.'''",
        "def f():\n    'See /proc/PID/stat.'",
        "class A:\n    '/proc is named here.'",
        "x = 1  # /proc/self",
        "from agentctl.system import pidfd, inotify",
        "pidfd.Handle(identity)",
        "x = '/processes'",
        "x = '/home/proc'",
        "x = '/proc hides the processes of other users'",
    ],
)
def test_other_code_passes(code: str) -> None:
    assert list(linux_calls(ast.parse(code))) == []


def sources() -> Iterator[tuple[str, Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), path


def linux_calls(tree: ast.AST) -> Iterator[str]:
    """Yield a line for each use of what only Linux has."""
    docstrings = {id(node) for node in find_docstrings(tree)}
    for node in ast.walk(tree):
        for word in words_of(node):
            if id(node) not in docstrings and is_linux(node, word):
                yield f"line {getattr(node, 'lineno', 0)}: {word}"


def words_of(node: ast.AST) -> Iterator[str]:
    """Yield the names and strings by which this node may reach the kernel."""
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("agentctl"):
        yield from (node.module or "", *(alias.name for alias in node.names))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
        yield node.value.decode("latin-1")


def is_linux(node: ast.AST, word: str) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return word.partition(".")[0] in MODULES or word.startswith(LINUX)
    if isinstance(node, ast.Constant):
        is_path = word == "/proc" or (word.startswith("/proc/") and " " not in word)
        return is_path or (word.isidentifier() and word.startswith(LINUX))
    return word.startswith(LINUX)


def find_docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        first = node.body[0] if isinstance(node, kinds) and node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            yield first.value
