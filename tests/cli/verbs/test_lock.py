"""`agentctl lock`: what each form means, and what it answers."""

import os
from pathlib import Path

import pytest

from agentctl.cli.locking import login
from tests.fakes.demo import DemoStage
from tests.running import agentctl_as_stranger, agentctl_in, agentctl_of, environ_of


def _held(stage: DemoStage) -> list[str]:
    return [lock["directory"] for lock in agentctl_of(stage, "lock", "list", "--json").json()["locks"]]


def test_nothing_is_locked_and_asking_makes_nothing(stage: DemoStage) -> None:
    for words in (("lock",), ("lock", "list"), ("locks",)):
        ran = agentctl_of(stage, *words)
        assert (ran.code, ran.out, ran.err) == (0, "no directory is locked\n", "")
    assert agentctl_of(stage, "lock", "list", "--json").json() == {
        "version": 1,
        "locks": [],
        "problems": [],
    }
    assert not (stage.root / "state").exists()


def test_short_and_long_are_the_same(stage: DemoStage) -> None:
    work = str(stage.work.resolve())
    for acquire, release in (
        (("lock", work), ("unlock", work)),
        (("lock", "acquire", work), ("lock", "release", work)),
        (("lock", "--ttl", "1h", work), ("unlock", "--force", work)),
    ):
        assert agentctl_of(stage, *acquire).code == 0
        assert _held(stage) == [work]
        assert agentctl_of(stage, *release).code == 0
        assert _held(stage) == []


def test_a_deed_without_a_directory_means_this_one(stage: DemoStage) -> None:
    environ, here = environ_of(stage), str(stage.work.resolve())
    assert agentctl_in(environ, "lock", "acquire", cwd=here).code == 0
    assert _held(stage) == [here]
    assert agentctl_in(environ, "unlock", cwd=here).code == 0
    assert _held(stage) == []


def test_what_it_says(stage: DemoStage) -> None:
    work = str(stage.work.resolve())
    took = agentctl_of(stage, "lock", work, "--ttl", "2h", "--reason", "a merge")
    assert took.out == f"locked {work} for 2h; agentctl unlock releases it\n"
    freed = agentctl_of(stage, "unlock", work)
    assert freed.out == f"released {work}, held by {login()} (a merge)\n"


def test_a_second_one_is_refused(stage: DemoStage) -> None:
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
    assert (lock["kind"], lock["by"], lock["expires_at"]) == ("person", login(), None)
    assert agentctl_of(stage, "lock", "list", "--json").json() == took
    assert agentctl_of(stage, "lock", "release", str(stage.work), "--json").json() == took


def test_directories_named_like_deeds(stage: DemoStage) -> None:
    for name in ("list", "release"):
        (stage.root / name).mkdir()
        assert agentctl_of(stage, "lock", f"./{name}").code == 0
        assert agentctl_of(stage, "lock", "release", name).code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("a", "b"), "one directory at a time"),
        (("list", "x"), "one directory at a time"),
        (("release", "a", "b"), "one directory at a time"),
        (("list", "--ttl", "1h"), "lock list takes no --ttl"),
        (("--reason", "x"), "lock list takes no --reason"),
        (("release", ".", "--by", "me"), "lock release takes no --by"),
        ((".", "--force"), "lock acquire takes no --force"),
        ((".", "--ttl", "soon"), "not a length of time"),
        ((".", "--ttl", "0"), "over at once"),
        (("absent",), "not a directory: absent"),
    ],
)
def test_usage(stage: DemoStage, words: tuple[str, ...], told: str) -> None:
    ran = agentctl_of(stage, "lock", *words)
    assert ran.code == 2
    assert told in ran.err
    assert not (stage.root / "state").exists()


def test_it_survives_a_restart_and_not_a_deleted_state(stage: DemoStage) -> None:
    import shutil

    agentctl_of(stage, "lock", str(stage.work))
    assert _held(stage) == [str(stage.work.resolve())]  # every call is a process of its own
    shutil.rmtree(stage.root / "state")
    assert _held(stage) == []
    assert agentctl_of(stage, "lock", str(stage.work)).code == 0


def test_without_a_home_there_is_nowhere_to_keep_it(stage: DemoStage) -> None:
    environ = {**environ_of(stage), "AGENTCTL_HOME": "/nonexistent/x/state"}
    ran = agentctl_in(environ, "lock", str(Path(stage.work)))
    assert ran.code == 1
    assert "/nonexistent/x/state" in ran.err
    assert agentctl_in(environ, "locks").code == 0


def test_one_who_has_no_home_at_all() -> None:
    """A container's uid without a passwd entry: nothing is kept, and asking is no error."""
    if os.geteuid() != 0:
        pytest.skip("only root can become a stranger")
    nowhere = {"PATH": "/usr/bin:/bin"}
    for verb in ("locks", "prune", "config"):
        assert agentctl_as_stranger(nowhere, verb).code == 0
    for words in (("lock", "/tmp"), ("unlock", "/tmp"), ("config", "init"), ("config", "path")):
        ran = agentctl_as_stranger(nowhere, *words)
        assert (ran.code, ran.out) == (5, "")
        assert ran.err.splitlines()[1] == "  set AGENTCTL_HOME"
