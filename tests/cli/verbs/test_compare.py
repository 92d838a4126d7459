"""`agentctl compare`."""

from pathlib import Path

from tests.fakes.demo import DemoStage
from tests.launch.grouping import Group
from tests.running import agentctl_of, agentctl_on_a_terminal, started
from tests.worktrees.repository import Repository


def test_a_group_is_compared_in_a_table(stage: DemoStage, repo: Repository) -> None:
    group = Group(stage, repo)
    group.add("opus", "write new.txt one", "commit", seconds=20, check=0)
    group.add("haiku", "write new.txt two", seconds=9, check=1)
    ran = agentctl_of(stage, "compare", "fi")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[0] for line in ran.lines[:3]] == ["SLOT", "opus", "haiku"]
    assert "failed (1)" in ran.lines[2]
    assert ran.lines[4:] == [
        "check: passed opus; failed haiku",
        "conflicts: opus and haiku in new.txt",
    ]


def test_json(stage: DemoStage, repo: Repository) -> None:
    group = Group(stage, repo)
    member = group.add("opus", "write new.txt one", check=0)
    answer = agentctl_of(stage, "compare", "fix", "--json").json()
    (slot,) = answer["slots"]
    assert (answer["group"], slot["slot"], slot["id"]) == ("fix", "opus", member.puppet.session_id)
    assert slot["changes"] == {
        "files": 1, "insertions": 1, "deletions": 0, "commits": 0, "uncommitted": 1,
    }  # fmt: skip
    assert slot["worktree"]["branch"] == "agentctl/fix/opus"


def test_diffs_are_those_of_git(stage: DemoStage, repo: Repository) -> None:
    group = Group(stage, repo)
    group.add("opus", "write new.txt\ttabs  ", "write b.txt x")
    group.begin("plain", plain=True)
    ran = agentctl_of(stage, "compare", "fix", "--diff")
    assert [line for line in ran.lines if line.startswith("===")] == [
        "=== opus " + "=" * 66,
        "=== plain " + "=" * 65,
    ]
    assert "+x" in ran.lines
    assert ran.lines[-1] == "not known: it ran in a plain directory"


def test_diffs_for_programs_are_byte_for_byte(stage: DemoStage, repo: Repository) -> None:
    member = Group(stage, repo).add("opus", "write new.txt x")
    (Path(member.worktree.path) / "latin.txt").write_bytes(b"na\xefve\n")
    with started(stage, "compare", "fix", "--diff") as child:
        out, _ = child.communicate(timeout=20)
    assert b"\n+na\xefve\n" in out
    assert out.index(b"=== opus") < out.index(b"diff --git"), "the heading comes before its diff"


def test_diffs_on_a_terminal_are_coloured_and_harmless(stage: DemoStage, repo: Repository) -> None:
    Group(stage, repo).add("opus", "write new.txt \x1b]0;owned\x07")
    diff = agentctl_on_a_terminal(stage, "compare", "fix", "--diff").out
    assert "\x1b[32m+\\x1b]0;owned\\x07\x1b[0m" in diff
    plain = agentctl_on_a_terminal(stage, "compare", "fix", "--diff", "--no-color").out
    assert "\x1b" not in plain


def test_no_such_group(stage: DemoStage, repo: Repository) -> None:
    assert agentctl_of(stage, "compare", "x") == (
        3,
        "",
        "agentctl: no group 'x'\n  no launch has a group yet\n",
    )
    Group(stage, repo).add("a")
    Group(stage, repo, "fit").add("a")
    ran = agentctl_of(stage, "compare", "x")
    assert (ran.code, ran.err.splitlines()[1]) == (3, "  groups: fit, fix")
    assert agentctl_of(stage, "compare", "fi").code == 3


def test_words_that_exclude_each_other(stage: DemoStage) -> None:
    assert agentctl_of(stage, "compare", "x", "--json", "--diff").code == 2


def test_list_selects_a_group(stage: DemoStage, repo: Repository) -> None:
    group = Group(stage, repo)
    mine = group.begin("a")
    Group(stage, repo, "other").begin("b")
    answer = agentctl_of(stage, "list", "--group", "fix", "--json").json()
    assert [session["id"] for session in answer["sessions"]] == [mine.puppet.session_id]
