"""The user's hooks: the facts they get, how output and failure are recorded, and their time limit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.errors import Forbidden, SourceError
from agentctl.launch import hooks
from agentctl.process import handles, ours
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.model import HookRun, Launch, Verdict, Worktree
from tests.ending import is_gone, kill
from tests.waiting import until

ME = proc.read_process(os.getpid(), proc.read_boot_id()).identity


class Bench:
    """Runs hooks of one launch, and ends what they leave."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cwd, self.folder = root / "work", root / "launches" / "1a"
        self.cwd.mkdir()
        self.folder.mkdir(parents=True, mode=0o700)
        self.note = Launch(f"1a-{root.name}-{os.getpid()}", ME, "4f2a", cwd=str(self.cwd))

    def run(self, command: str, **facts: str) -> HookRun:
        return hooks.run_hook("on-complete", command, self.note, str(self.folder), facts)

    def read_output(self) -> str:
        return (self.folder / "on-complete").read_text()

    def only_process(self) -> list[ProcessIdentity]:
        """The only one, once there is one: it has no environment until its program runs."""
        until(lambda: len(self.find_processes()) == 1, "one process is left")
        return self.find_processes()

    def find_processes(self) -> list[ProcessIdentity]:
        """Live processes that carry this launch's marker."""
        identities = []
        for process in proc.read_table().values():
            try:
                if process.is_alive and process.environ().get(ours.HOOK, "").startswith(self.note.id):
                    identities.append(process.identity)
            except SourceError:
                continue
        return identities


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for identity in bench.find_processes():
        kill(identity)


def test_a_hook_gets_the_facts_in_the_launchs_directory(bench: Bench) -> None:
    ran = bench.run('pwd; echo "$AGENTCTL_MODEL"; readlink /proc/self/fd/0', AGENTCTL_MODEL="m 1")
    assert bench.read_output() == f"{bench.cwd}\nm 1\n/dev/null\n"
    assert (ran.hook, ran.code, ran.output) == ("on-complete", 0, f"{bench.folder}/on-complete")
    assert ran.command.startswith("pwd")
    assert ran.seconds > 0


def test_a_hook_has_our_environment_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "yes")
    monkeypatch.setenv("AGENTCTL_GROUP", "of an outer launch")
    bench.run('echo "$OURS/$AGENTCTL_GROUP"', AGENTCTL_GROUP="")
    assert bench.read_output() == "yes/\n"


def test_both_streams_are_stored_and_private(bench: Bench) -> None:
    bench.run("echo out; echo err >&2")
    assert bench.read_output() == "out\nerr\n"
    assert (bench.folder / "on-complete").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("command", "code"),
    [("true", 0), ("exit 3", 3), ("kill -9 $$", -9), ("no-such-program", 127), ("if", 2), ("", 0)],
)
def test_the_exit_code_is_reported(bench: Bench, command: str, code: int) -> None:
    assert bench.run(command).code == code


def test_without_its_directory_a_hook_runs_beside_its_output(bench: Bench) -> None:
    bench.cwd.rmdir()
    bench.run("pwd")
    assert bench.read_output() == f"{bench.folder}\n"


def test_a_deleted_folder_is_created_again(bench: Bench) -> None:
    bench.folder.rmdir()
    assert bench.run("echo run").code == 0
    assert bench.read_output() == "run\n"
    assert bench.folder.stat().st_mode & 0o777 == 0o700


def test_no_place_for_the_output_is_an_error(bench: Bench) -> None:
    bench.folder.rmdir()
    bench.folder.write_text("a file")
    with pytest.raises(SourceError):
        bench.run("true")


def test_a_hook_that_cannot_be_started_fails_with_the_reason(bench: Bench) -> None:
    """Linux accepts no argument of that length."""
    ran = bench.run(f": {'x' * 200_000}")
    assert ran.code == 126
    assert "cannot start the hook: [Errno 7] Argument list too long" in bench.read_output()


def test_a_hook_that_takes_too_long_is_ended_with_its_processes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "LIMIT", 0.3)
    # a child, one under another parent and session, one that ignores everything, the shell itself
    ran = bench.run(
        "trap '' TERM INT HUP; echo begun; sleep 1001 & (setsid sleep 1002 &); "
        "sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1003; done' & wait; wait"
    )
    assert ran.code is None
    assert bench.read_output().startswith("begun\n")
    assert bench.find_processes() == []


def test_only_that_hooks_processes_are_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run("setsid sleep 1000 > /dev/null 2>&1 & echo done")  # in time, and left to itself
    [other] = bench.only_process()
    bench.note = bench.note._replace(id=f"{bench.note.id}-2")
    monkeypatch.setattr(hooks, "LIMIT", 0.05)
    assert bench.run("sleep 1000").code is None
    assert not is_gone(other)
    with Handle(other) as handle:
        handle.signal(signal.SIGKILL)


def test_a_process_in_the_background_is_not_waited_for(bench: Bench) -> None:
    assert bench.run("sleep 1000 & echo $!").code == 0
    [identity] = bench.only_process()
    assert identity.pid == int(bench.read_output())


def test_a_process_that_we_may_not_end_does_not_spare_the_rest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under sudo. Only the refusal is played, all else is real."""
    monkeypatch.setattr(hooks, "LIMIT", 0.3)

    class Refusing(Handle):
        __slots__ = ()

        def signal(self, number: signal.Signals) -> None:
            process = proc.find_process(self.identity)
            if process is not None and "1002" in process.argv:
                raise Forbidden(self.identity.address, "not ours to touch")
            super().signal(number)

    monkeypatch.setattr(handles, "Handle", Refusing)
    ran = bench.run("sleep 1001 & sleep 1002 & sleep 1003 & wait")
    assert ran.code is None
    [identity] = bench.find_processes()
    process = proc.find_process(identity)
    assert process is not None
    assert "1002" in process.argv


def test_a_second_run_begins_a_new_record(bench: Bench) -> None:
    bench.run("echo a long first word")
    bench.run("echo two")
    assert bench.read_output() == "two\n"


def test_facts_of_a_start() -> None:
    tree = Worktree("/repo", "/repo-tree", "agentctl/g/1", "a" * 40)
    note = Launch("1a", ME, "4f2a", "n", "g", adapter="pi", cwd="/w", model="m", worktree=tree)
    assert hooks.hook_facts(note) == {
        "AGENTCTL_LAUNCH_ID": "1a",
        "AGENTCTL_SESSION_ID": "4f2a",
        "AGENTCTL_ADAPTER": "pi",
        "AGENTCTL_CWD": "/w",
        "AGENTCTL_MODEL": "m",
        "AGENTCTL_GROUP": "g",
        "AGENTCTL_BRANCH": "agentctl/g/1",
        "AGENTCTL_EXIT_CODE": "",
        "AGENTCTL_OUTCOME": "",
    }


@pytest.mark.parametrize(("code", "text"), [(0, "0"), (3, "3"), (-9, "-9"), (None, "")])
def test_facts_of_an_end(code: int | None, text: str) -> None:
    verdict = Verdict("stopped", "unknown", None, "failed", code, "it ended", (), ())
    facts = hooks.hook_facts(Launch("1a", ME), verdict)
    assert (facts["AGENTCTL_EXIT_CODE"], facts["AGENTCTL_OUTCOME"]) == (text, "failed")
    assert (facts["AGENTCTL_SESSION_ID"], facts["AGENTCTL_BRANCH"]) == ("", "")


def test_a_process_of_a_hook_is_known_by_its_marker(bench: Bench) -> None:
    bench.run("sleep 1000 > /dev/null 2>&1 &")
    until(lambda: len(bench.find_processes()) == 1, "the one it left")
    process = proc.find_process(bench.find_processes()[0])
    assert process is not None
    assert process.environ()[ours.HOOK] == f"{bench.note.id}/on-complete"
