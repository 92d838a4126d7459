"""Starting a shim and speaking with it, from callers in every condition."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentctl.errors import AgentctlError, StartFailed, UsageError
from agentctl.launch import folder, spawn
from agentctl.launch.shim.shim import Spec
from agentctl.process import ours
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.truth import launched
from tests.ending import is_gone, kill
from tests.running import SOURCES
from tests.waiting import until

ENVIRON = {"PATH": "/usr/bin:/bin"}


class Nursery:
    """Children of shims, all ended with the test."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "launches" / "1a"
        self.known: list[ProcessIdentity] = []
        self.children: list[spawn.Child] = []

    def spec(self, script: str) -> bytes:
        nothing = [b"/bin/true"]
        argv = [b"/bin/sh", b"-c", script.encode()]
        environ = [os.fsencode(f"{name}={value}") for name, value in ENVIRON.items()]
        return Spec.written(str(self.folder), "/", 0.0, (argv, environ, nothing, nothing))

    def child(self, script: str) -> spawn.Child:
        made = spawn.Child(self.spec(script), ENVIRON)
        self.children.append(made)
        process = proc.read_process(made.identity.pid, made.identity.boot)
        shim = proc.read_process(process.parent, made.identity.boot)
        self.known += [made.identity, shim.identity]
        return made

    def make(self) -> None:
        folder.make(str(self.folder), b"")

    def said(self) -> str:
        until((self.folder / "exit").exists, "an exit record")
        return (self.folder / "stdout").read_text()

    def code(self) -> int:
        until((self.folder / "exit").exists, "an exit record")
        code: int = json.loads((self.folder / "exit").read_text())["code"]
        return code


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    made = Nursery(tmp_path)
    yield made
    for child in made.children:
        child.release()
    for identity in made.known:
        kill(identity)


def _open() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_the_identity_is_known_before_it_runs(nursery: Nursery) -> None:
    child = nursery.child("exit 0")
    assert not is_gone(child.identity)
    assert child.identity.boot == proc.boot_id()
    nursery.make()
    child.go()
    assert nursery.code() == 0


def test_no_descriptor_is_left_open(nursery: Nursery) -> None:
    before = _open()
    child = nursery.child("exit 0")
    nursery.make()
    child.go()
    child.release()
    assert _open() == before
    child.release()  # twice is no harm
    child.forget()


def test_none_is_left_open_where_no_shim_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _open()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(AgentctlError, match="/no/such/python"):
        spawn.Child(b"", ENVIRON)
    assert _open() == before


def test_a_shim_that_starts_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _open()
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(StartFailed, match="ended before it had started anything"):
        spawn.Child(b"", ENVIRON)
    assert _open() == before


def test_a_shim_that_is_killed_before_the_word_is_told(nursery: Nursery) -> None:
    """Not as a broken pipe: that is how a reader like `head` leaves, and no error."""
    child = nursery.child("exit 0")
    agent, shim = nursery.known
    kill(shim)
    until(lambda: is_gone(agent), "the agent's process leaves with it")
    with pytest.raises(StartFailed, match="could not be started: its shim ended"):
        child.go()


def test_why_it_cannot_be_started_is_told(nursery: Nursery) -> None:
    child = nursery.child("exit 0")
    with pytest.raises(StartFailed, match="could not be started: No such file or directory"):
        child.go()  # there is no folder for its output
    child.forget()
    until(lambda: all(map(is_gone, nursery.known)), "both leave")


def test_what_the_caller_has_open_is_not_the_agents(nursery: Nursery) -> None:
    """A lock of `flock 9`, or a pipe that is read to its end, would be held for as long as it lives."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    child = nursery.child("exec sleep 1000")
    nursery.make()
    child.go()
    child.release()
    os.close(writer)
    with open(reader, "rb") as pipe:
        until(lambda: _sleeps(nursery.known[0]), "it runs")
        os.set_blocking(reader, False)
        assert pipe.read() == b""  # the end, not "nothing yet"
    for identity in nursery.known:
        until(partial(_holds_only_its_own, identity.pid), "nothing of ours is open there")
    descriptors = f"/proc/{nursery.known[0].pid}/fd"
    until(lambda: len(os.listdir(descriptors)) == 3, "sleep has closed its locale")


def _holds_only_its_own(pid: int) -> bool:
    """Its streams, the shim's pipes for speaking with us, and what it tells of its launch. What it opens
    for a moment goes again."""
    try:
        opened = {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    except FileNotFoundError:
        return False
    return {0, 1, 2} <= opened.keys() and all(
        what.startswith(("pipe:", f"/memfd:{launched.MEMORY} ")) for fd, what in opened.items() if fd > 2
    )


def _sleeps(identity: ProcessIdentity) -> bool:
    """A process that is just replacing its program has no arguments for a moment."""
    process = proc.current(identity)
    return process is not None and any("sleep" in word for word in process.argv[:1])


def test_the_callers_directory_is_not_held(nursery: Nursery) -> None:
    """It may be on a disk that somebody wants to take out."""
    child = nursery.child("exec sleep 1000")
    nursery.make()
    child.go()
    until(lambda: _sleeps(nursery.known[0]), "it runs")
    until(lambda: os.readlink(f"/proc/{nursery.known[1].pid}/cwd") == "/", "its shim is out of the way")


def test_many_open_descriptors_are_in_nobodys_way(nursery: Nursery) -> None:
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(300)]
    try:
        child = nursery.child("echo well")
        nursery.make()
        child.go()
        assert nursery.said() == "well\n"
    finally:
        for fd in opened:
            os.close(fd)


_CALLER = """
import os, signal, sys
{before}
from agentctl.launch import folder as output, spawn
folder = sys.argv[1]
with open(sys.argv[2], "rb") as file: spec = file.read()
child = spawn.Child(spec, {{"PATH": "/usr/bin:/bin"}})
output.make(folder, b"")
child.go()
child.release()
"""


def _called(nursery: Nursery, before: str, script: str, **more: Any) -> None:
    """From a process of its own, in that condition."""
    spec = nursery.folder.parent.parent / "spec"
    spec.write_bytes(nursery.spec(script))
    subprocess.run(
        [sys.executable, "-c", _CALLER.format(before=before), str(nursery.folder), str(spec)],
        env={**ENVIRON, "PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=60,
        check=True,
        **more,
    )


def test_a_caller_without_streams(nursery: Nursery) -> None:
    _called(nursery, "[os.close(fd) for fd in (0, 1, 2)]", "readlink /proc/self/fd/0; echo err >&2")
    assert nursery.said() == f"{nursery.folder}/stdin\n"
    assert (nursery.folder / "stderr").read_text() == "err\n"


def test_a_caller_that_ignores_the_end_of_its_children(nursery: Nursery) -> None:
    """What is ignored is inherited, and then nobody would learn how the agent ended."""
    _called(nursery, "signal.signal(signal.SIGCHLD, signal.SIG_IGN)", "exit 3")
    assert nursery.code() == 3


def test_a_caller_that_ignores_and_blocks_all_it_can(nursery: Nursery) -> None:
    before = (
        "every = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}\n"
        "[signal.signal(number, signal.SIG_IGN) for number in every]\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, every)"
    )
    _called(nursery, before, "grep -E 'Sig(Ign|Blk)' /proc/self/status")
    reserved = 1 << 31 | 1 << 32  # by the C library, for its threads; a spawned process ignores them
    masks = [int(line.split()[1], 16) for line in nursery.said().splitlines()]
    assert [mask & ~reserved for mask in masks] == [0, 0]


def test_what_the_shim_is_told(tmp_path: Path) -> None:
    told = Spec(
        spawn.spec(
            str(tmp_path), "/w", ["/bin/a", "-"], {"K": "v\udcff"}, timeout=None, then=("/state", "1a")
        )
    )
    assert (told.cwd, told.timeout, told.argv) == (b"/w", 0.0, [b"/bin/a", b"-"])
    assert told.environ == [b"K=v\xff"]
    for words, module in ((told.finishing, ours.FINISH), (told.expiring, ours.EXPIRE)):
        assert words[:3] == [os.fsencode(sys.executable), b"-I", b"-c"]
        assert f"from {module} import main".encode() in words[3]
        assert words[4:] == [b"/state", b"1a"]


@pytest.mark.parametrize(
    ("argv", "environ"),
    [(["/bin/a", "x\0y"], {}), (["/bin/a"], {"K": "x\0y"}), (["/bin/a"], {"K\0": "x"})],
)
def test_a_nul_is_refused(argv: list[str], environ: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="NUL"):
        spawn.spec("/f", "/", argv, environ, timeout=None, then=())


def test_the_shim_tells_of_its_launch_until_it_ends(nursery: Nursery) -> None:
    child = nursery.child("exec sleep 1000")
    nursery.make()
    shim = proc.read_process(nursery.known[1].pid, nursery.known[1].boot)
    assert launched.carried(shim) is None  # nothing was told yet
    first = launched.Carried("1a", "/s", "demo", "/w", child.identity, None, 1.5, None, "a name")
    child.carry(first)
    child.go()
    told = launched.carried(shim)
    assert told is not None
    assert told == first._replace(address=told.address)
    assert os.readlink(told.address.replace(shim.identity.address, f"/proc/{shim.pid}")).startswith(
        "/mem"
    )
    child.carry(first._replace(session_id="s1"))
    child.release()
    told = launched.carried(shim)
    assert told is not None
    assert told.session_id == "s1"
    assert [each.launch_id for each in launched.carriers({shim.pid: shim})] == ["1a"]
    agent = proc.read_process(child.identity.pid, child.identity.boot)
    until(lambda: _sleeps(child.identity), "it runs")
    assert launched.carried(agent) is None  # what the shim holds is not passed on
    kill(shim.identity)
    assert launched.carried(shim) is None
