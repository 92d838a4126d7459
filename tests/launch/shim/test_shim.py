"""The parent of a launched agent: real programs under it, ended in every way."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.errors import StartFailed
from agentctl.launch import folder as output
from agentctl.launch import spawn
from agentctl.launch.shim.shim import AGAIN_FILE, RECHECK, RESERVED, Spec, _read_more_time
from agentctl.system import proc as procfs
from agentctl.system.pidfd import Handle
from tests.ending import is_gone, kill
from tests.waiting import until

ENVIRON = {"PATH": "/usr/bin:/bin", "A": "b=c", "EMPTY": "", "UNI": "ü\n", "PWD": "/"}


class ShimRun:
    """One run of an agent below a shim."""

    def __init__(
        self,
        folder: Path,
        script: str,
        *,
        timeout: float = 0.0,
        argv0: str = "/bin/sh",
        expiring: str = "/bin/sh",
        when_asked: str = "echo expired > expired",
    ) -> None:
        self.folder = folder
        sections = (
            [os.fsencode(word) for word in (argv0, "-c", script)],
            [os.fsencode(f"{name}={value}") for name, value in ENVIRON.items()],
            [b"/bin/sh", b"-c", b"echo finished > %b/finished" % os.fsencode(folder)],
            [os.fsencode(expiring), b"-c", os.fsencode(f"cd {folder}; {when_asked}")],
        )
        spec = Spec.encode(str(folder), "/", timeout, sections)
        self.child = spawn.Child(spec, ENVIRON)
        self.identity = self.child.identity
        shim = procfs.read_process(self.identity.pid, self.identity.boot).parent
        self.shim = procfs.read_process(shim, self.identity.boot).identity

    def go(self) -> ShimRun:
        output.make_folder(str(self.folder), b"to be read")
        self.child.go()
        return self

    def record(self) -> dict[str, Any]:
        path = self.folder / "exit"
        until(path.exists, "an exit record")
        record: dict[str, Any] = json.loads(path.read_text())
        return record

    def read_output(self) -> str:
        self.record()
        return (self.folder / "stdout").read_text()

    def has_left(self) -> bool:
        return is_gone(self.shim) and is_gone(self.identity)

    def close(self) -> None:
        self.child.release()
        for identity in (self.identity, self.shim):
            kill(identity)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    runs: list[ShimRun] = []

    def start_run(script: str, **more: Any) -> ShimRun:
        runs.append(ShimRun(tmp_path / "launches" / f"l{len(runs)}", script, **more))
        return runs[-1]

    yield start_run
    for run in runs:
        run.close()


@given(
    st.lists(
        st.lists(st.binary().map(lambda b: b.replace(b"\0", b"")), max_size=5), min_size=4, max_size=4
    ),
    st.floats(min_value=0, max_value=1e6),
)
def test_a_spec_is_read_as_it_was_written(lists: list[list[bytes]], timeout: float) -> None:
    one, two, three, four = lists
    spec = Spec(Spec.encode("/f", "/c", timeout, (one, two, three, four)))
    assert (spec.folder, spec.cwd) == (b"/f", b"/c")
    assert spec.timeout == pytest.approx(timeout, abs=1e-5)
    assert [spec.argv, spec.environ, spec.finishing, spec.expiring] == lists


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9)])
def test_the_exit_code_is_recorded(start: Any, script: str, code: int) -> None:
    run = start(script).go()
    record = run.record()
    assert record["code"] == code
    assert record["clock_back_s"] < 0.5  # the clock was not set back
    run.child.release()
    until(run.has_left, "shim and agent are gone")
    assert (run.folder / "finished").read_text() == "finished\n"


def test_the_exit_record_has_room_on_a_full_disk(start: Any) -> None:
    run = start("exec sleep 1000").go()
    reserved = run.folder / "exit.new"
    until(lambda: reserved.exists() and reserved.stat().st_size >= RESERVED, "its place is kept")
    place = reserved.stat().st_ino
    kill(run.identity)
    assert run.record()["code"] == -signal.SIGKILL
    record = (run.folder / "exit").stat()
    assert (record.st_ino, record.st_size) == (place, RESERVED)  # nothing more was asked of the disk


def test_the_agent_waits_for_the_launcher(start: Any, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    run = start(f"echo > {begun}")
    assert procfs.read_process(run.identity.pid, run.identity.boot).comm == "agentctl-shim"
    assert not run.folder.exists()
    output.make_folder(str(run.folder), b"")  # so that the agent could start
    run.child.release()  # as if the launcher had died
    until(run.has_left, "shim and agent are gone")
    assert not begun.exists()


def test_a_program_that_cannot_be_run_is_reported(start: Any) -> None:
    run = start("", argv0="/no/such/program")
    with pytest.raises(StartFailed, match="No such file or directory"):
        run.go()
    run.child.forget()
    until(run.has_left, "shim and agent are gone")
    assert sorted(p.name for p in run.folder.iterdir()) == ["stderr", "stdin", "stdout"]


def test_a_failed_start_has_no_finishing_work(start: Any) -> None:
    run = start("exit 1").go()
    run.record()
    run.child.forget()
    until(run.has_left, "shim and agent are gone")
    assert not (run.folder / "finished").exists()


def test_the_launcher_is_waited_for_before_the_finishing_work(start: Any) -> None:
    run = start("exit 1").go()
    run.record()
    assert not is_gone(run.shim)
    assert not (run.folder / "finished").exists()


def test_the_environment_is_exactly_that_of_the_spec(start: Any) -> None:
    run = start("exec env -0").go()
    assert sorted(filter(None, run.read_output().split("\0"))) == sorted(
        f"{name}={value}" for name, value in ENVIRON.items()
    )


def test_the_agent_reads_its_input_and_then_the_end(start: Any) -> None:
    assert start("cat").go().read_output() == "to be read"


def test_files_are_private(start: Any) -> None:
    run = start("echo out; echo err >&2").go()
    run.record()
    assert run.folder.stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in run.folder.iterdir()} == {0o600}


def test_signals_are_as_in_a_fresh_shell(start: Any) -> None:
    """Python ignores SIGPIPE, the shim what is meant for the agent: neither is passed on."""
    run = start("grep -E 'Sig(Ign|Blk)' /proc/self/status").go()
    ignored_or_blocked = [int(line.split()[1], 16) for line in run.read_output().splitlines()]
    for number in ("INT", "TERM", "HUP", "PIPE", "XFSZ", "QUIT", "USR1", "CHLD"):
        bit = 1 << (signal.Signals[f"SIG{number}"] - 1)
        assert [mask & bit for mask in ignored_or_blocked] == [0, 0], number


def test_no_terminal_and_no_group_is_shared_with_us(start: Any) -> None:
    run = start("exec sleep 1000").go()
    assert os.getsid(run.identity.pid) == run.identity.pid
    assert os.getsid(run.shim.pid) == run.shim.pid != os.getsid(0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_shim_outlives_what_is_meant_for_the_agent(start: Any, number: signal.Signals) -> None:
    run = start("exec sleep 1000").go()
    for identity in (run.shim, run.identity):
        with Handle(identity) as handle:
            handle.signal(number)
    assert run.record()["code"] == -number


def test_orphans_come_to_the_shim(start: Any) -> None:
    run = start(
        "(setsid sleep 1000 & echo $! > orphan); exec sleep 1000".replace("orphan", "/dev/stdout")
    )
    run.go()
    until(lambda: _text(run.folder / "stdout") != "", "its word")
    number = int((run.folder / "stdout").read_text())
    orphan = procfs.read_process(number, run.identity.boot)

    def comes_to_the_shim() -> bool:  # as soon as the shell that started it has ended
        return bool(procfs.read_process(number, orphan.identity.boot).parent == run.shim.pid)

    try:
        until(comes_to_the_shim, "it is the shim's")
    finally:
        with Handle(orphan.identity) as handle:
            handle.signal(signal.SIGKILL)


def test_the_agent_survives_its_shim(start: Any) -> None:
    run = start("exec sleep 1000").go()
    with Handle(run.shim) as handle:
        handle.signal(signal.SIGKILL)
        handle.wait(20)
    assert not is_gone(run.identity)
    assert not (run.folder / "exit").exists()


def test_a_deleted_folder_stops_nothing(start: Any) -> None:
    run = start("read line; exec sleep 1000").go()
    output.remove_folder(str(run.folder))
    with Handle(run.identity) as handle:
        handle.signal(signal.SIGKILL)
    run.child.release()
    until(run.has_left, "shim and agent are gone")


def test_the_timeout_runs_the_expiring_command(start: Any) -> None:
    run = start("exec sleep 1000", timeout=0.05).go()
    until((run.folder / "expired").exists, "it expires")
    assert not is_gone(run.identity)  # to end it is the business of what was called


def test_the_agent_survives_a_timeout_without_a_command(start: Any) -> None:
    # the Python that started the shim may be uninstalled by then
    run = start("sleep 0.3; exit 3", timeout=0.05, expiring="/no/such/python").go()
    assert run.record()["code"] == 3


def test_the_shim_needs_little_memory_and_does_not_wake_up(start: Any) -> None:
    """Private memory, and not one wake-up while the agent runs and talks."""
    run = start(
        "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.01; done; echo done; exec sleep 1000"
    ).go()
    proc = Path(f"/proc/{run.shim.pid}")
    until(lambda: (proc / "stat").read_text().rpartition(")")[2].split()[0] == "S", "it waits")
    before = _wakeups(proc)
    until(lambda: "done" in _text(run.folder / "stdout"), "it is done talking")
    assert _wakeups(proc) - before <= 9  # a shell's own children are not ours
    private = [line.split() for line in (proc / "smaps_rollup").read_text().splitlines()]
    assert sum(int(words[1]) for words in private if words[0].startswith("Private_")) < 10_000


def _wakeups(proc: Path) -> int:
    lines = (proc / "status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("voluntary_ctxt")))


def test_the_expiring_command_may_be_run_again(start: Any) -> None:
    run = start(
        "exec sleep 1000",
        timeout=0.05,
        when_asked="if test -e again; then echo expired > expired; else echo 0.05 > again; exit 75; fi",
    ).go()
    until((run.folder / "expired").exists, "it is asked a second time")
    assert not is_gone(run.identity)


@pytest.mark.parametrize("text", [None, "", "soon"])
def test_without_a_readable_time_the_command_is_run_again(tmp_path: Path, text: str | None) -> None:
    """As on a full disk: the timeout is not lost."""
    if text is not None:
        (tmp_path / AGAIN_FILE).write_text(text)
    assert _read_more_time(os.fsencode(tmp_path)) == RECHECK > 0
