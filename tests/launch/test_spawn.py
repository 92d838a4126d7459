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
from agentctl.system.proc import ProcessIdentity
from agentctl.truth import launches
from tests.ending import is_gone, kill
from tests.running import SOURCES
from tests.waiting import until

ENVIRON = {"PATH": "/usr/bin:/bin"}


class Nursery:
    """Children of shims, all ended with the test."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "launches" / "1a"
        self.identities: list[ProcessIdentity] = []
        self.children: list[spawn.Child] = []

    def spec(self, script: str) -> bytes:
        nothing = [b"/bin/true"]
        argv = [b"/bin/sh", b"-c", script.encode()]
        environ = [os.fsencode(f"{name}={value}") for name, value in ENVIRON.items()]
        return Spec.encode(str(self.folder), "/", 0.0, (argv, environ, nothing, nothing))

    def child(self, script: str) -> spawn.Child:
        child = spawn.Child(self.spec(script), ENVIRON)
        self.children.append(child)
        process = proc.read_process(child.identity.pid, child.identity.boot)
        shim = proc.read_process(process.parent, child.identity.boot)
        self.identities += [child.identity, shim.identity]
        return child

    def make_folder(self) -> None:
        folder.make_folder(str(self.folder), b"")

    def read_output(self) -> str:
        until((self.folder / "exit").exists, "an exit record")
        return (self.folder / "stdout").read_text()

    def code(self) -> int:
        until((self.folder / "exit").exists, "an exit record")
        code: int = json.loads((self.folder / "exit").read_text())["code"]
        return code


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path)
    yield nursery
    for child in nursery.children:
        child.release()
    for identity in nursery.identities:
        kill(identity)


def _list_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_the_identity_is_known_before_it_runs(nursery: Nursery) -> None:
    child = nursery.child("exit 0")
    assert not is_gone(child.identity)
    assert child.identity.boot == proc.read_boot_id()
    nursery.make_folder()
    child.go()
    assert nursery.code() == 0


def test_no_descriptor_is_left_open(nursery: Nursery) -> None:
    before = _list_descriptors()
    child = nursery.child("exit 0")
    nursery.make_folder()
    child.go()
    child.release()
    assert _list_descriptors() == before
    child.release()  # twice is no harm
    child.forget()


def test_none_is_left_open_where_no_shim_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _list_descriptors()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(AgentctlError, match="/no/such/python"):
        spawn.Child(b"", ENVIRON)
    assert _list_descriptors() == before


def test_a_shim_that_starts_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _list_descriptors()
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(StartFailed, match="ended before it started the agent"):
        spawn.Child(b"", ENVIRON)
    assert _list_descriptors() == before


def test_a_shim_that_is_killed_before_the_start_is_reported(nursery: Nursery) -> None:
    """Not as a broken pipe: that is how a reader like `head` leaves, and no error."""
    child = nursery.child("exit 0")
    agent, shim = nursery.identities
    kill(shim)
    until(lambda: is_gone(agent), "the agent's process leaves with it")
    with pytest.raises(StartFailed, match="could not be started: its shim ended"):
        child.go()


def test_the_reason_of_a_failed_start_is_reported(nursery: Nursery) -> None:
    child = nursery.child("exit 0")
    with pytest.raises(StartFailed, match="could not be started: No such file or directory"):
        child.go()  # there is no folder for its output
    child.forget()
    until(lambda: all(map(is_gone, nursery.identities)), "both leave")


def test_the_agent_inherits_no_open_file_of_the_caller(nursery: Nursery) -> None:
    """A lock of `flock 9`, or a pipe that is read to its end, would be held for as long as it lives."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    child = nursery.child("exec sleep 1000")
    nursery.make_folder()
    child.go()
    child.release()
    os.close(writer)
    with open(reader, "rb") as pipe:
        until(lambda: _is_sleeping(nursery.identities[0]), "it runs")
        os.set_blocking(reader, False)
        assert pipe.read() == b""  # the end, not "nothing yet"
    for identity in nursery.identities:
        until(partial(_has_only_its_own_files, identity.pid), "nothing of ours is open there")
    descriptors = f"/proc/{nursery.identities[0].pid}/fd"
    until(lambda: len(os.listdir(descriptors)) == 3, "sleep has closed its locale")


def _has_only_its_own_files(pid: int) -> bool:
    """Its streams, the shim's pipes to us, and the note of its launch. What it opens for a moment is
    closed again."""
    try:
        opened = {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    except FileNotFoundError:
        return False
    return {0, 1, 2} <= opened.keys() and all(
        what.startswith(("pipe:", f"/memfd:{launches.MEMORY} ")) for fd, what in opened.items() if fd > 2
    )


def _is_sleeping(identity: ProcessIdentity) -> bool:
    """A process that is just replacing its program has no arguments for a moment."""
    process = proc.find_process(identity)
    return process is not None and any("sleep" in word for word in process.argv[:1])


def test_the_callers_directory_is_not_held(nursery: Nursery) -> None:
    """It may be on a disk that the user wants to unmount."""
    child = nursery.child("exec sleep 1000")
    nursery.make_folder()
    child.go()
    until(lambda: _is_sleeping(nursery.identities[0]), "it runs")
    until(
        lambda: os.readlink(f"/proc/{nursery.identities[1].pid}/cwd") == "/",
        "its shim is out of the way",
    )


def test_the_caller_may_have_many_open_descriptors(nursery: Nursery) -> None:
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(300)]
    try:
        child = nursery.child("echo well")
        nursery.make_folder()
        child.go()
        assert nursery.read_output() == "well\n"
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
output.make_folder(folder, b"")
child.go()
child.release()
"""


def _launch_from_caller(nursery: Nursery, before: str, script: str, **more: Any) -> None:
    """Launch from another process, in that condition."""
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
    _launch_from_caller(
        nursery, "[os.close(fd) for fd in (0, 1, 2)]", "readlink /proc/self/fd/0; echo err >&2"
    )
    assert nursery.read_output() == f"{nursery.folder}/stdin\n"
    assert (nursery.folder / "stderr").read_text() == "err\n"


def test_a_caller_that_ignores_the_end_of_its_children(nursery: Nursery) -> None:
    """An ignored SIGCHLD is inherited, and then the exit code of the agent would be lost."""
    _launch_from_caller(nursery, "signal.signal(signal.SIGCHLD, signal.SIG_IGN)", "exit 3")
    assert nursery.code() == 3


def test_a_caller_that_ignores_and_blocks_all_it_can(nursery: Nursery) -> None:
    before = (
        "every = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}\n"
        "[signal.signal(number, signal.SIG_IGN) for number in every]\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, every)"
    )
    _launch_from_caller(nursery, before, "grep -E 'Sig(Ign|Blk)' /proc/self/status")
    reserved = 1 << 31 | 1 << 32  # by the C library, for its threads; a spawned process ignores them
    masks = [int(line.split()[1], 16) for line in nursery.read_output().splitlines()]
    assert [mask & ~reserved for mask in masks] == [0, 0]


def test_the_spec_of_the_shim(tmp_path: Path) -> None:
    spec = Spec(
        spawn.build_spec(
            str(tmp_path), "/w", ["/bin/a", "-"], {"K": "v\udcff"}, timeout=None, then=("/state", "1a")
        )
    )
    assert (spec.cwd, spec.timeout, spec.argv) == (b"/w", 0.0, [b"/bin/a", b"-"])
    assert spec.environ == [b"K=v\xff"]
    for words, module in ((spec.finishing, ours.FINISH), (spec.expiring, ours.EXPIRE)):
        assert words[:3] == [os.fsencode(sys.executable), b"-I", b"-c"]
        assert f"from {module} import main".encode() in words[3]
        assert words[4:] == [b"/state", b"1a"]


@pytest.mark.parametrize(
    ("argv", "environ"),
    [(["/bin/a", "x\0y"], {}), (["/bin/a"], {"K": "x\0y"}), (["/bin/a"], {"K\0": "x"})],
)
def test_a_nul_is_refused(argv: list[str], environ: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="NUL"):
        spawn.build_spec("/f", "/", argv, environ, timeout=None, then=())


def test_the_shim_carries_its_note_until_it_ends(nursery: Nursery) -> None:
    child = nursery.child("exec sleep 1000")
    nursery.make_folder()
    shim = proc.read_process(nursery.identities[1].pid, nursery.identities[1].boot)
    assert launches.read_shim_note(shim) is None  # there is no note yet
    first = launches.ShimNote("1a", "/s", "demo", "/w", child.identity, None, 1.5, None, "a name")
    child.carry(first)
    child.go()
    note = launches.read_shim_note(shim)
    assert note is not None
    assert note == first._replace(address=note.address)
    assert os.readlink(note.address.replace(shim.identity.address, f"/proc/{shim.pid}")).startswith(
        "/mem"
    )
    child.carry(first._replace(session_id="s1"))
    child.release()
    note = launches.read_shim_note(shim)
    assert note is not None
    assert note.session_id == "s1"
    assert [each.launch_id for each in launches.read_shim_notes({shim.pid: shim})] == ["1a"]
    agent = proc.read_process(child.identity.pid, child.identity.boot)
    until(lambda: _is_sleeping(child.identity), "it runs")
    assert launches.read_shim_note(agent) is None  # what the shim holds is not passed on
    kill(shim.identity)
    assert launches.read_shim_note(shim) is None
