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


def _branches(group: Group) -> list[str]:
    return [
        c.worktree.branch.rpartition("/")[2]
        for c in worktree.list_worktrees(str(group.repo.path))
        if c.worktree
    ]


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
    answer = _run(group, "list", str(group.repo.path), "--json", cwd="/").json()
    (shape,) = answer["worktrees"]
    assert shape["path"] == member.worktree.path
    assert shape["group"] == "fix"
    assert shape["sessions"] == [
        {
            "id": member.puppet.session_id,
            "adapter": "demo",
            "status": "waiting",
            "pid": member.puppet.pid,
        }
    ]


def test_a_worktree_is_listed_without_our_state(group: Group) -> None:
    group.add("a", "write x.txt 1")
    shutil.rmtree(group.stage.environ["AGENTCTL_HOME"])
    assert "1 uncommitted" in _run(group).out
    assert _run(group, "clean").code == 4


def test_without_a_worktree(group: Group) -> None:
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
    lines = {line.split()[1].rpartition("/")[2]: line for line in ran.lines}
    assert lines["unchanged"].startswith("removed")
    assert lines["unchanged"].endswith("branch agentctl/fix/unchanged deleted")
    assert "(demo, running) runs in it: agentctl stop" in lines["busy"]
    assert "1 file not committed (--force" in lines["dirty"]
    assert "has 1 commit that nothing else has" in lines["ahead"]
    assert sorted(_branches(group)) == ["ahead", "busy", "dirty"]


def test_force_spares_live_sessions(group: Group) -> None:
    busy = group.begin("busy")
    group.add("dirty", "write x.txt 1")
    ran = _run(group, "clean", "--delete-branch", "--force")
    assert ran.code == 4
    assert _branches(group) == ["busy"]
    assert Path(busy.worktree.path).is_dir()
    busy.puppet.kill()
    assert _run(group, "clean", "--force").code == 0
    assert _branches(group) == []


def test_a_branch_is_kept_without_delete_branch(group: Group) -> None:
    member = group.add("a", "write x.txt 1", "commit")
    ran = _run(group, "clean")
    assert (ran.code, ran.lines[0].rpartition(": ")[2]) == (0, "branch agentctl/fix/a kept")
    assert worktree.find_tip(str(group.repo.path), member.worktree.branch) is not None


def test_two_branches_with_the_same_work_are_kept(group: Group) -> None:
    one = group.add("one", "write x.txt 1", "commit")
    two = group.add("two")
    group.repo.git("reset", "--quiet", "--hard", one.worktree.branch, cwd=two.worktree.path)
    assert _run(group, "clean", "--delete-branch").code == 4
    assert sorted(_branches(group)) == ["one", "two"]


def test_merged_selects_merged_branches(group: Group) -> None:
    group.add("merged", "write x.txt 1", "commit")
    group.add("not", "write y.txt 1", "commit")
    group.repo.git("merge", "--quiet", "agentctl/fix/merged")
    assert [line.split()[0] for line in _run(group, "list", "--merged").lines] == [
        "BRANCH",
        "agentctl/fix/merged",
    ]
    ran = _run(group, "clean", "--merged", "--delete-branch")
    assert (ran.code, [line.split()[0] for line in ran.lines]) == (0, ["removed", "kept"])
    assert _branches(group) == ["not"]


def test_clean_takes_branches_paths_and_groups(group: Group) -> None:
    first, second = group.add("a"), group.add("b")
    Group(group.stage, group.repo, "other").add("c")
    assert _run(group, "clean", first.worktree.branch).code == 0
    assert _run(group, "clean", second.worktree.path).code == 0
    assert _branches(group) == ["c"]
    assert _run(group, "clean", "--group", "fix").out == "no worktree of ours\n"
    assert _run(group, "clean", "nowhere").code == 3
    assert _run(group, "clean", "--group", "other").code == 0
    assert _branches(group) == []


def test_dry_run(group: Group) -> None:
    group.add("a")
    ran = _run(group, "clean", "--dry-run", "--delete-branch", "--json")
    assert ran.code == 0
    (shape,) = ran.json()["worktrees"]
    assert (shape["result"], shape["reason"]) == ("would remove", "branch agentctl/fix/a deleted")
    assert _branches(group) == ["a"]


def test_a_person_s_lock_is_respected_without_force(group: Group) -> None:
    member = group.add("a")
    locks.acquire_lock(group.notes, member.worktree.path, "ann", "a meeting", None)
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
