"""One look at the machine: whose processes, whose files, whose settings."""

import os
import pwd
import subprocess
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agentctl.errors import Exhausted, Forbidden, Malformed, SourceError
from agentctl.paths import home_directory
from agentctl.system import clock, proc
from agentctl.system.proc import Process
from agentctl.truth import visibility
from agentctl.truth.look import Environ, Look
from agentctl.truth.memory import Stamp
from agentctl.truth.model import Facts
from tests.fakes.stranger import Stranger
from tests.truth.strategies import make_process

OTHER_USER = 65534
INIT = {1: make_process(1, parent=0, start=0)}  # without it, others are hidden from us
UNLISTED = 54321


@pytest.fixture
def look() -> Look:
    return Look.take({"HOME": "/ours"}).scope_to("demo")


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "theirs"), "LOOKED_AT": tmp_path.name}
    with Stranger("looked-at", environ, tmp_path) as stranger:
        yield stranger


def root(environ: Environ) -> str | None:
    base = home_directory(environ)
    return environ.get("AGENT_HOME") or (f"{base}/.agent" if base else None)


# processes


def test_a_long_look_does_not_date_processes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def long_read() -> dict[int, Process]:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            pass
        return {}

    monkeypatch.setattr(proc, "read_table", long_read)
    assert Look.take({}).boot_time > clock.boot_time(time.time()) - 0.2


def test_the_start_time_of_a_process_is_a_moment_ago(stranger: Stranger) -> None:
    before = time.time()
    look = Look.take({})
    assert abs(look.find_start_time(look.table[stranger.pid]) - before) < 60


# settings


def test_the_environment_of_another_process_is_its_own(
    stranger: Stranger, look: Look, tmp_path: Path
) -> None:
    assert look.read_environ(stranger.process)["HOME"] == str(tmp_path / "theirs")


def test_roots_are_ours_and_those_of_each_process_once(look: Look, tmp_path: Path) -> None:
    with (
        Stranger("looked-at", {"HOME": "/a"}, tmp_path) as one,
        Stranger("looked-at", {"HOME": "/a"}, tmp_path) as two,
        Stranger("looked-at", {"HOME": "/b", "AGENT_HOME": "/c"}, tmp_path) as three,
    ):
        look.own_processes = tuple(each.process for each in (one, two, three))
        assert look.find_roots(root) == ["/ours/.agent", "/a/.agent", "/c"]
        assert look.find_root(three.process, root) == "/c"


def test_a_process_that_is_gone_has_no_settings(look: Look, tmp_path: Path) -> None:
    with Stranger("looked-at", {"HOME": "/a"}, tmp_path) as stranger:
        process = stranger.process
    assert look.read_environ(process) == {}
    assert look.problems == []


class Withheld(Process):
    """Another user's: the kernel does not show its environment."""

    __slots__ = ()

    failure: SourceError = Forbidden("proc:7@1/environ", "the kernel refuses to tell")

    def __init__(self, uid: int) -> None:
        super().__init__(make_process(7).identity, 1, "S", "agent")
        self._uid, self._described = uid, True

    def environ(self) -> Environ:
        raise self.failure


@pytest.mark.parametrize(
    "failure", [Withheld.failure, Exhausted("proc:7@1", "too many open files")], ids=lambda f: f.kind
)
def test_a_process_with_a_withheld_environment_has_its_users_home(
    look: Look, failure: SourceError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Withheld, "failure", failure)
    assert look.read_environ(Withheld(0)) == {"HOME": pwd.getpwuid(0).pw_dir}
    assert [p.kind for p in look.problems] == [failure.kind]


def test_a_withheld_uid_without_passwd_entry_has_no_home(look: Look) -> None:
    with pytest.raises(KeyError):
        pwd.getpwuid(UNLISTED)
    assert look.read_environ(Withheld(UNLISTED)) == {}


def test_home_directory_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert home_directory({"HOME": "/h"}) == "/h"
    assert home_directory({}) == pwd.getpwuid(os.getuid()).pw_dir
    assert home_directory({"HOME": ""}) == pwd.getpwuid(os.getuid()).pw_dir
    monkeypatch.setattr("os.getuid", lambda: UNLISTED)
    assert home_directory({}) is None
    assert Look({}, {}, 0.0).find_roots(root) == []


def test_a_process_without_home_has_that_of_its_user(look: Look, tmp_path: Path) -> None:
    """Root looks at other people's agents."""
    if os.geteuid() != 0:
        pytest.skip("needs root: to start a process of another user")
    with subprocess.Popen(
        ["sleep", "60"],
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
        user=OTHER_USER,
        group=OTHER_USER,
        extra_groups=[],
    ) as child:
        try:
            process = proc.read_process(child.pid, proc.read_boot_id())
            assert home_directory(look.read_environ(process)) == pwd.getpwuid(OTHER_USER).pw_dir
        finally:
            child.kill()


# files


def test_an_absent_file_is_no_problem_and_an_unreadable_one_is(look: Look, tmp_path: Path) -> None:
    assert look.list_names(str(tmp_path / "none")) == []
    assert look.stat(str(tmp_path / "none")) is None
    assert look.problems == []
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert look.list_names(str(loop)) == []
    assert look.stat(str(loop)) is None
    assert {(p.adapter, p.kind, p.source) for p in look.problems} == {("demo", "malformed", str(loop))}


class FakeCache:
    """A cache whose entries the test can read."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, Stamp], Any] = {}

    def recall(self, path: str, stamp: Stamp) -> Any:
        return self.entries.get((path, stamp))

    def remember(self, path: str, stamp: Stamp, changed: float, value: Any) -> None:
        self.entries[path, stamp] = value


def test_facts_of_a_file_are_cached_unless_it_had_a_problem(tmp_path: Path) -> None:
    memory = FakeCache()
    look = Look({}, {}, 0.0, cache=memory).scope_to("demo")
    status = tmp_path.stat()
    assert look.read_facts("/good", status, lambda *_: Facts(title="read")) == Facts(title="read")
    assert look.read_facts("/good", status, lambda *_: Facts(title="again")) == Facts(title="read")
    assert look.read_facts("/bad", status, lambda *_: Facts(garbled=2)) == Facts(garbled=2)
    assert {path for path, _ in memory.entries} == {"/good"}
    assert [(p.kind, p.source) for p in look.problems] == [("malformed", "/bad")]


def test_facts_with_a_problem_that_is_reported_already_are_not_cached(tmp_path: Path) -> None:
    """The file of a live session is read twice: for its process, and as a file."""
    memory = FakeCache()
    look = Look({}, {}, 0.0, cache=memory).scope_to("demo")
    look.report_problem("malformed", "2 records not readable", "/bad")
    look.read_facts("/bad", tmp_path.stat(), lambda *_: Facts(garbled=2))
    assert len(look.problems) == 1
    assert memory.entries == {}


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    look, path = Look({}, {}, 0.0, cache=FakeCache()), tmp_path / "s.jsonl"
    read = count(1)

    def read_title() -> str | None:
        return look.read_facts(str(path), path.stat(), lambda *_: Facts(title=str(next(read)))).title

    path.write_text("{}\n")
    os.utime(path, ns=(0, 10**18))
    assert [read_title(), read_title()] == ["1", "1"]
    os.utime(path, ns=(0, 10**18 + 1))  # another time
    assert [read_title(), read_title()] == ["2", "2"]
    path.write_text("{} \n")  # another size
    os.utime(path, ns=(0, 10**18 + 1))
    assert [read_title(), read_title()] == ["3", "3"]
    other = tmp_path / "other"
    other.write_text("{} \n")  # another inode
    os.utime(other, ns=(0, 10**18 + 1))
    other.rename(path)
    assert [read_title(), read_title()] == ["4", "4"]


@pytest.mark.parametrize("value", [7, "word", (), (1, 2), (1,) * 13])
def test_a_strange_cache_entry_is_ignored(tmp_path: Path, value: Any) -> None:
    memory = FakeCache()
    look, status = Look({}, {}, 0.0, cache=memory), tmp_path.stat()
    look.read_facts("/f", status, lambda *_: Facts(title="read"))
    memory.entries = dict.fromkeys(memory.entries, value)
    assert look.read_facts("/f", status, lambda *_: Facts(title="again")) == Facts(title="again")


# sources that could not be read


def test_a_problem_is_reported_once(look: Look) -> None:
    for _ in range(3):
        look.report_unreadable(Malformed("/f", "not JSON"))
    look.report_drift("status", "parked", "2.2.0", "/f")
    assert [(p.kind, p.source) for p in look.problems] == [("malformed", "/f"), ("drift", "/f")]
    assert "demo 2.2.0 says status 'parked'" in look.problems[1].message


def test_a_source_that_was_not_read_is_marked(look: Look) -> None:
    look.report_problem("malformed", "2 records not readable", "/f")
    assert not look.has_unread_source
    look.report_unreadable(Malformed("/f", "database is locked"))
    assert look.has_unread_source
    assert not look.scope_to("other").has_unread_source


def test_visibility_is_read_once_for_all_adapters(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    read_visibility, calls = visibility.read_visibility, count()

    def count_call(*values: Any) -> visibility.Visibility:
        next(calls)
        return read_visibility(*values)

    monkeypatch.setattr(visibility, "read_visibility", count_call)
    assert look.scope_to("one").visibility is look.scope_to("two").visibility is look.visibility
    assert next(calls) == 1


def test_each_adapter_has_its_own_view(look: Look) -> None:
    other = look.scope_to("other")
    other.report_problem("broken", "by itself")
    other.own_processes = (make_process(7),)
    assert look.problems == []
    assert look.own_processes == ()
    assert other.table is look.table
    assert (other.now, other.boot_time) == (look.now, look.boot_time)


def test_the_moment_of_a_look_is_before_its_processes() -> None:
    before = time.time()
    look = Look.take({})
    assert before <= look.now
    newest = max(look.find_start_time(process) for process in look.table.values())
    assert newest <= time.time() + 0.1
