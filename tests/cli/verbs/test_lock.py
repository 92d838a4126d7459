"""`agentctl lock`, `locks` and `unlock`: the meaning and the answer of each form."""

import os
import sqlite3
from pathlib import Path

import pytest

from agentctl.cli.verbs.lock import login_name
from agentctl.state import launch_writes
from agentctl.truth.model import Launch
from tests.cli import hostile
from tests.fakes.demo import DemoStage
from tests.running import (
    agentctl_as_stranger,
    agentctl_in,
    agentctl_of,
    agentctl_on_a_terminal,
    environ_of,
)


def _locked_directories(stage: DemoStage) -> list[str]:
    return [lock["directory"] for lock in agentctl_of(stage, "lock", "list", "--json").json()["locks"]]


def test_without_locks_asking_creates_nothing(stage: DemoStage) -> None:
    for words in (("lock",), ("lock", "list"), ("locks",)):
        ran = agentctl_of(stage, *words)
        assert (ran.code, ran.out, ran.err) == (0, "no directory is locked\n", "")
    assert agentctl_of(stage, "lock", "list", "--json").json() == {
        "version": 1,
        "locks": [],
        "problems": [],
    }
    assert not (stage.root / "state").exists()


def test_short_and_long_forms_do_the_same(stage: DemoStage) -> None:
    work = str(stage.work.resolve())
    for acquire, release in (
        (("lock", work), ("unlock", work)),
        (("lock", "acquire", work), ("lock", "release", work)),
        (("lock", "--ttl", "1h", work), ("unlock", "--force", work)),
    ):
        assert agentctl_of(stage, *acquire).code == 0
        assert _locked_directories(stage) == [work]
        assert agentctl_of(stage, *release).code == 0
        assert _locked_directories(stage) == []


def test_a_command_without_a_directory_means_this_one(stage: DemoStage) -> None:
    environ, here = environ_of(stage), str(stage.work.resolve())
    assert agentctl_in(environ, "lock", "acquire", cwd=here).code == 0
    assert _locked_directories(stage) == [here]
    assert agentctl_in(environ, "unlock", cwd=here).code == 0
    assert _locked_directories(stage) == []


def test_lock_and_unlock_print_what_they_did(stage: DemoStage) -> None:
    work = str(stage.work.resolve())
    took = agentctl_of(stage, "lock", work, "--ttl", "2h", "--reason", "a merge")
    assert took.out == f"locked {work} for 2h; agentctl unlock releases it\n"
    freed = agentctl_of(stage, "unlock", work)
    assert freed.out == f"released {work}, held by {login_name()} (a merge)\n"


def test_a_second_lock_is_refused(stage: DemoStage) -> None:
    agentctl_of(stage, "lock", str(stage.work), "--by", "me")
    ran = agentctl_of(stage, "lock", str(stage.work), "--json")
    assert (ran.code, ran.out) == (4, "")
    work = stage.work.resolve()
    assert ran.err.splitlines() == [
        f"agentctl: {work} is locked by me, for 0s now",
        f"  agentctl unlock {work} releases it",
    ]


def test_json(stage: DemoStage) -> None:
    took = agentctl_of(stage, "lock", str(stage.work), "--json").json()
    [lock] = took["locks"]
    assert (lock["kind"], lock["by"], lock["expires_at"]) == ("person", login_name(), None)
    assert agentctl_of(stage, "lock", "list", "--json").json() == took
    assert agentctl_of(stage, "lock", "release", str(stage.work), "--json").json() == took


def test_directories_named_like_commands(stage: DemoStage) -> None:
    for name in ("list", "release"):
        (stage.root / name).mkdir()
        assert agentctl_of(stage, "lock", f"./{name}").code == 0
        assert agentctl_of(stage, "lock", "release", name).code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a", "b"), "unrecognized arguments: b"),
        (("list", "x"), "unrecognized arguments: x"),
        (("release", "a", "b"), "unrecognized arguments: b"),
        (("list", "--ttl", "1h"), "lock list takes no --ttl"),
        (("--reason", "x"), "lock list takes no --reason"),
        (("release", ".", "--by", "me"), "lock release takes no --by"),
        ((".", "--force"), "lock acquire takes no --force"),
        ((".", "--ttl", "soon"), "not a duration"),
        ((".", "--ttl", "0"), "--ttl must be more than 0"),
        (("absent",), "not a directory: absent"),
    ],
)
def test_usage(stage: DemoStage, words: tuple[str, ...], message: str) -> None:
    ran = agentctl_of(stage, "lock", *words)
    assert ran.code == 2
    assert message in ran.err
    assert not (stage.root / "state").exists()


def test_a_lock_survives_a_restart_and_not_a_deleted_state(stage: DemoStage) -> None:
    import shutil

    agentctl_of(stage, "lock", str(stage.work))
    # every call is a process of its own
    assert _locked_directories(stage) == [str(stage.work.resolve())]
    shutil.rmtree(stage.root / "state")
    assert _locked_directories(stage) == []
    assert agentctl_of(stage, "lock", str(stage.work)).code == 0


def test_a_lock_needs_a_state_directory(stage: DemoStage) -> None:
    environ = {**environ_of(stage), "AGENTCTL_HOME": "/nonexistent/x/state"}
    ran = agentctl_in(environ, "lock", str(Path(stage.work)))
    assert ran.code == 1
    assert "/nonexistent/x/state" in ran.err
    assert agentctl_in(environ, "locks").code == 0


def test_a_user_without_any_home() -> None:
    """A container's uid without a passwd entry: nothing is stored, and reading is no error."""
    if os.geteuid() != 0:
        pytest.skip("only root can become a stranger")
    nowhere = {"PATH": "/usr/bin:/bin"}
    for verb in ("locks", "prune", "config"):
        assert agentctl_as_stranger(nowhere, verb).code == 0
    for words in (("lock", "/tmp"), ("unlock", "/tmp"), ("config", "init"), ("config", "path")):
        ran = agentctl_as_stranger(nowhere, *words)
        assert (ran.code, ran.out) == (5, "")
        assert ran.err.splitlines()[1] == "  set AGENTCTL_HOME"


def database(stage: DemoStage) -> str:
    return f"{stage.environ['AGENTCTL_HOME']}/state.db"


def test_the_login_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    assert login_name() == pwd.getpwuid(os.getuid()).pw_name

    def raise_key_error(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", raise_key_error)
    monkeypatch.delenv("LOGNAME", raising=False)
    monkeypatch.setenv("USER", "me")
    assert login_name() == "me"
    monkeypatch.delenv("USER")
    assert login_name() == f"uid {os.getuid()}"


def test_locks_of_agents_and_of_people_are_in_one_table(stage: DemoStage) -> None:
    puppet = stage.start()
    note = Launch("1a", puppet.identity, puppet.session_id, "the name", cwd=str(stage.work))
    launch_writes.begin_launch(database(stage), note)
    (stage.home / "mine").mkdir()
    agentctl_of(
        stage, "lock", str(stage.home / "mine"), "--by", "me", "--reason", "a merge", "--ttl", "9h"
    )
    ran = agentctl_of(stage, "locks", COLUMNS="200")
    assert ran.lines[0].split() == ["DIRECTORY", "HELD", "BY", "SINCE", "UNTIL"]
    assert f"session {puppet.session_id} (the name), pid {puppet.pid}" in ran.lines[1]
    assert ran.lines[1].endswith("it ends")
    assert ran.lines[2].startswith("~/mine")
    assert "me (a merge)" in ran.lines[2]
    assert ran.lines[2].endswith("in 9h")
    puppet.kill()
    assert len(agentctl_of(stage, "locks").lines) == 2  # its directory is free at once


def test_an_owner_in_another_container_is_named(stage: DemoStage) -> None:
    puppet = stage.start()
    launch_writes.begin_launch(database(stage), Launch("1a", puppet.identity, cwd=str(stage.work)))
    connection = sqlite3.connect(database(stage))
    with connection:
        connection.execute("update lock set namespace = 'pid:[1]'")
    connection.close()
    ran = agentctl_of(stage, "locks")
    assert f"launch 1a, pid {puppet.pid} in another container" in ran.lines[1]
    assert ran.lines[1].endswith("not known")


def test_hostile_names_are_harmless_and_fit(stage: DemoStage) -> None:
    odd = stage.work / "a\n\x1b[31m\u202e漢\udcff"
    odd.mkdir()
    took = agentctl_of(stage, "lock", str(odd), "--reason", "\x1b[2J\nx", "--by", "漢" * 50)
    assert took.code == 0
    refused = agentctl_of(stage, "lock", str(odd))
    assert refused.code == 4
    for ran in (took, refused, agentctl_of(stage, "locks")):
        assert hostile.harmful(ran.out + ran.err) == []
    table = agentctl_on_a_terminal(stage, "locks", columns=60, NO_COLOR="1")
    assert max(map(len, table.lines)) <= 60
    assert agentctl_of(stage, "unlock", str(odd)).code == 0


def test_a_name_that_is_no_text_is_refused(stage: DemoStage) -> None:
    for option in ("--by", "--reason"):
        ran = agentctl_of(stage, "lock", ".", option, "\udcff")
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert "not UTF-8" in ran.err


def test_locks_that_cannot_be_read_are_no_empty_answer(stage: DemoStage) -> None:
    state = stage.root / "state"
    state.mkdir()
    (state / "state.db").write_text("rubbish\n" * 500)
    ran = agentctl_of(stage, "locks")
    assert (ran.code, ran.out) == (1, "")
    assert "malformed" in ran.err
    shape = agentctl_of(stage, "locks", "--json")
    assert shape.code == 1
    assert [problem["kind"] for problem in shape.json()["problems"]] == ["malformed"]


def test_locks_is_lock_list(stage: DemoStage) -> None:
    for words in ((), ("--json",)):
        assert agentctl_of(stage, "locks", *words) == agentctl_of(stage, "lock", "list", *words)
    agentctl_of(stage, "lock", str(stage.work))
    assert agentctl_of(stage, "locks", "--json") == agentctl_of(stage, "lock", "list", "--json")


def test_locks_takes_no_directory(stage: DemoStage) -> None:
    assert agentctl_of(stage, "locks", ".").code == 2


def test_unlock_of_a_directory_that_is_not_locked(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "unlock", str(stage.work))
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.splitlines()[0] == f"agentctl: {stage.work.resolve()} is not locked"
    assert not (stage.root / "state").exists()


def test_unlock_releases_the_lock_of_an_agent_only_by_force(stage: DemoStage) -> None:
    puppet = stage.start()
    note = Launch("1a", puppet.identity, puppet.session_id, cwd=str(stage.work))
    launch_writes.begin_launch(database(stage), note)
    refused = agentctl_of(stage, "unlock", str(stage.work))
    assert refused.code == 4
    assert f"in use by session {puppet.session_id}, pid {puppet.pid}" in refused.err
    assert f"agentctl stop {puppet.session_id} ends it" in refused.err
    forced = agentctl_of(stage, "unlock", "--force", "--json", str(stage.work))
    assert forced.code == 0
    assert [lock["pid"] for lock in forced.json()["locks"]] == [puppet.pid]
    assert agentctl_of(stage, "unlock", str(stage.work)).code == 3
    assert stage.find_row(puppet) is not None  # it works on
