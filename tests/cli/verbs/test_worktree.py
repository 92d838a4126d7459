"""`agentctl worktree`."""

import shutil
from pathlib import Path

import pytest

from agentctl.state import locks
from agentctl.worktrees import worktree
from tests.fakes.demo import DemoStage
from tests.launch.grouping import Group
from tests.running import Ran, agentctl_in, environ_of
from tests.worktrees.repository import Repository


@pytest.fixture
def group(stage: DemoStage, repo: Repository) -> Group:
    return Group(stage, repo)


def _run(group: Group, *words: str, cwd: str | None = None) -> Ran:
    return agentctl_in(environ_of(group.stage), "worktree", *words, cwd=cwd or str(group.repo.path))


def _left(group: Group) -> list[str]:
    return [c.made.branch.rpartition("/")[2] for c in worktree.ours(str(group.repo.path)) if c.made]


def test_a_list(group: Group) -> None:
    busy = group.begin("busy", "work", "write x.txt 1")
    group.add("done", "write x.txt 1", "commit")
    ran = _run(group)
    assert (ran.code, ran.err) == (0, "")
    rows = {line.split()[0]: line for line in ran.lines}
    assert "1 uncommitted" in rows["agentctl/fix/busy"]
    assert f"{(busy.puppet.session_id or '')[:8]} running" in rows["agentctl/fix/busy"]
    assert "+1 -0" in rows["agentctl/fix/done"]
    assert "not merged" in rows["agentctl/fix/done"]


def test_json_from_elsewhere(group: Group) -> None:
    member = group.begin("busy", "ask")
    told = _run(group, "list", str(group.repo.path), "--json", cwd="/").json()
    (shape,) = told["worktrees"]
    assert shape["path"] == member.made.path
    assert shape["group"] == "fix"
    assert shape["sessions"] == [
        {
            "id": member.puppet.session_id,
            "adapter": "demo",
            "status": "waiting",
            "pid": member.puppet.pid,
        }
    ]


def test_it_is_told_without_our_state(group: Group) -> None:
    group.add("a", "write x.txt 1")
    shutil.rmtree(group.stage.environ["AGENTCTL_HOME"])
    assert "1 uncommitted" in _run(group).out
    assert _run(group, "clean").code == 4


def test_none(group: Group) -> None:
    assert _run(group) == (0, "no worktree of ours\n", "")
    assert _run(group, "clean") == (0, "no worktree of ours\n", "")
    ran = _run(group, cwd="/")
    assert (ran.code, ran.err.splitlines()[0]) == (3, "agentctl: not in a git repository: /")


def test_clean_removes_what_is_safe_and_refuses_the_rest(group: Group) -> None:
    group.begin("busy", "work")
    group.add("dirty", "write x.txt 1")
    group.add("ahead", "write x.txt 1", "commit")
    group.add("unchanged")
    ran = _run(group, "clean", "--delete-branch")
    assert ran.code == 4
    told = {line.split()[1].rpartition("/")[2]: line for line in ran.lines}
    assert told["unchanged"].startswith("removed")
    assert told["unchanged"].endswith("branch agentctl/fix/unchanged deleted")
    assert "(demo, running) runs in it: agentctl stop" in told["busy"]
    assert "1 file not committed (--force" in told["dirty"]
    assert "has 1 commit that nothing else has" in told["ahead"]
    assert sorted(_left(group)) == ["ahead", "busy", "dirty"]


def test_force_spares_the_living(group: Group) -> None:
    busy = group.begin("busy")
    group.add("dirty", "write x.txt 1")
    ran = _run(group, "clean", "--delete-branch", "--force")
    assert ran.code == 4
    assert _left(group) == ["busy"]
    assert Path(busy.made.path).is_dir()
    busy.puppet.kill()
    assert _run(group, "clean", "--force").code == 0
    assert _left(group) == []


def test_a_branch_stays_unless_it_is_to_go(group: Group) -> None:
    member = group.add("a", "write x.txt 1", "commit")
    ran = _run(group, "clean")
    assert (ran.code, ran.lines[0].rpartition(": ")[2]) == (0, "branch agentctl/fix/a kept")
    assert worktree.tip(str(group.repo.path), member.made.branch) is not None


def test_two_that_hold_the_same_work_do_not_both_go(group: Group) -> None:
    one = group.add("one", "write x.txt 1", "commit")
    two = group.add("two")
    group.repo.git("reset", "--quiet", "--hard", one.made.branch, cwd=two.made.path)
    assert _run(group, "clean", "--delete-branch").code == 4
    assert sorted(_left(group)) == ["one", "two"]


def test_only_what_is_merged(group: Group) -> None:
    group.add("merged", "write x.txt 1", "commit")
    group.add("not", "write y.txt 1", "commit")
    group.repo.git("merge", "--quiet", "agentctl/fix/merged")
    assert [line.split()[0] for line in _run(group, "list", "--merged").lines] == [
        "BRANCH",
        "agentctl/fix/merged",
    ]
    ran = _run(group, "clean", "--merged", "--delete-branch")
    assert (ran.code, [line.split()[0] for line in ran.lines]) == (0, ["removed", "kept"])
    assert _left(group) == ["not"]


def test_only_some(group: Group) -> None:
    first, second = group.add("a"), group.add("b")
    Group(group.stage, group.repo, "other").add("c")
    assert _run(group, "clean", first.made.branch).code == 0
    assert _run(group, "clean", second.made.path).code == 0
    assert _left(group) == ["c"]
    assert _run(group, "clean", "--group", "fix").out == "no worktree of ours\n"
    assert _run(group, "clean", "nowhere").code == 3
    assert _run(group, "clean", "--group", "other").code == 0
    assert _left(group) == []


def test_dry_run(group: Group) -> None:
    group.add("a")
    ran = _run(group, "clean", "--dry-run", "--delete-branch", "--json")
    assert ran.code == 0
    (shape,) = ran.json()["worktrees"]
    assert (shape["result"], shape["reason"]) == ("would remove", "branch agentctl/fix/a deleted")
    assert _left(group) == ["a"]


def test_a_person_s_lock(group: Group) -> None:
    member = group.add("a")
    locks.acquire(group.notes, member.made.path, "ann", "a meeting", None)
    ran = _run(group, "clean")
    assert ran.code == 4
    assert "locked by ann: a meeting (--force" in ran.out
    assert _run(group, "clean", "--force").code == 0


def test_worktrees_of_others_are_not_touched(group: Group) -> None:
    group.repo.git("worktree", "add", "-b", "mine", f"{group.repo.path}-mine")
    assert _run(group, "clean", "--force", "--delete-branch").out == "no worktree of ours\n"
    assert Path(f"{group.repo.path}-mine").is_dir()
    assert _run(group, "clean", "mine").code == 3


@pytest.mark.parametrize("words", [["lst"], ["list", "--force"], ["list", "--dry-run"]])
def test_usage(group: Group, words: list[str]) -> None:
    assert _run(group, *words).code == 2
