"""The processes of a look: by name, by parent, by lock, and how they ended."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.errors import Exhausted, Gone
from agentctl.system import file_holders
from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence
from tests.fakes.stranger import Stranger
from tests.truth.strategies import make_process
from tests.waiting import until


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "theirs"), "LOOKED_AT": tmp_path.name}
    with Stranger("looked-at", environ, tmp_path) as stranger:
        yield stranger


def test_candidates_are_selected_by_name(stranger: Stranger) -> None:
    look = Look.take({})
    pids = [p.pid for p in look.find_candidates(frozenset({"looked-at"}))]
    assert stranger.pid in pids
    assert stranger.pid not in [p.pid for p in look.find_candidates(frozenset({"looked"}))]


@pytest.mark.parametrize(
    ("comm", "fits"), [("2.1.325", True), ("2.1.325-beta.1", True), ("2.1", False), ("a.b.c", False)]
)
def test_a_binary_named_after_its_version_is_a_candidate(comm: str, fits: bool) -> None:
    process = Process(make_process(7).identity, 1, "S", comm)
    assert bool(Look({7: process}, {}, 0.0).find_candidates(frozenset({"#.#.#"}))) == fits
    assert not Look({7: process}, {}, 0.0).find_candidates(frozenset({"claude"}))


def test_a_zombie_is_no_candidate(tmp_path: Path) -> None:
    with Stranger("looked-at", {"LOOKED_AT": tmp_path.name}, tmp_path) as stranger:
        stranger.end(reap=False)
        assert stranger.process.state == "Z"
        assert stranger.pid not in [
            p.pid for p in Look.take({}).find_candidates(frozenset({"looked-at"}))
        ]


def test_a_confined_look_sees_only_marked_processes(stranger: Stranger, tmp_path: Path) -> None:
    comms = frozenset({"looked-at"})
    with Stranger("looked-at", {"LOOKED_AT": "another"}, tmp_path) as other:
        confined = Look.take({"AGENTCTL_CONFINE": f"LOOKED_AT={tmp_path.name}"})
        assert [p.pid for p in confined.find_candidates(comms)] == [stranger.pid]
        assert {stranger.pid, other.pid} <= {p.pid for p in Look.take({}).find_candidates(comms)}
        assert Look.take({"AGENTCTL_CONFINE": "LOOKED_AT=none"}).find_candidates(comms) == []


def test_descendants_are_alive_and_children_need_not_be() -> None:
    processes = [
        make_process(10),
        make_process(20, 10),
        make_process(21, 10, "Z"),
        make_process(30, 20),
        make_process(31, 21),
        make_process(40),
    ]
    look = Look({p.pid: p for p in processes}, {}, 0.0)
    assert [p.pid for p in look.find_children(processes[0])] == [20, 21]
    assert [p.pid for p in look.find_descendants(processes[0])] == [20, 30]
    assert look.find_descendants(processes[-1]) == []


def test_the_end_of_a_process_that_a_record_names_is_evidence(tmp_path: Path) -> None:
    with Stranger("looked-at", {}, tmp_path) as stranger:
        identity = stranger.identity

        def find_end(start: int) -> list[Evidence]:
            return list(Look.take({}).find_end(identity.pid, start, "/7.json"))

        assert find_end(identity.start) == []
        (reused,) = find_end(identity.start - 1)
        assert (reused.claim, reused.authority) == ("ended", "kernel")
        stranger.end(reap=False)
        piece, exit_piece = find_end(identity.start)
        assert (piece.claim, exit_piece.claim, exit_piece.value) == ("ended", "exited", -signal.SIGKILL)
    (piece,) = find_end(identity.start)
    assert "does not exist any more" in piece.note


def test_a_vanished_process_does_not_end_the_look(tmp_path: Path) -> None:
    process = make_process(2**22 - 1)
    look = Look({process.pid: process}, {}, 0.0, confine="A=b")
    assert look.find_candidates(frozenset({"agent"})) == []
    with pytest.raises(Gone):
        _ = process.argv


def test_a_lock_with_the_same_inode_on_another_file_system_is_ignored(
    tmp_path: Path, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's table of locks names a file by its inode, which other file systems have too. Without
    a free descriptor we cannot find out which file it is."""

    def raise_exhausted(*_: object) -> bool:
        raise Exhausted("/proc", "too many open files")

    path = tmp_path / "thread.lock"
    path.touch()
    holder = subprocess.Popen(["flock", str(path), "cat"], stdin=subprocess.PIPE)
    try:
        inode = path.stat().st_ino
        until(lambda: inode in file_holders.find_lock_holders(), "it is locked")
        look = Look.take({})
        look._processes._lock_holders.update(
            {inode: {*file_holders.find_lock_holders()[inode], stranger.pid}}
        )
        assert [process.pid for process in look.find_lock_holders(str(path))] == [holder.pid]
        monkeypatch.setattr(Process, "has_open", raise_exhausted)
        with pytest.raises(Exhausted):
            look.find_lock_holders(str(path))
    finally:
        holder.communicate()
