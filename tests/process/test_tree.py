"""Who belongs to a session, and who only looks like it."""

import os
import subprocess
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.process import ours
from agentctl.process.kinship import Tree
from agentctl.process.ours import HOOK, LAUNCH
from agentctl.process.tree import Family, inside, is_control
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process
from agentctl.system.program import SHIM
from agentctl.testing import Puppet
from agentctl.testing.player import wait_for_program
from agentctl.truth.judge import judge
from agentctl.truth.model import EntryPoint, Evidence, Facts, Observation, Session
from tests.fakes.doomed import Doomed
from tests.fakes.stranger import Stranger
from tests.waiting import until

BOOT = "boot"
ME = os.geteuid()
LAUNCHED = {LAUNCH: "ours"}
OURSELVES = "import sys; sys.path.insert(0, '/x'); from agentctl.control."


STAGE = Doomed


class Described(Process):
    """A process of a table that never was."""

    def inner_pid(self) -> int:
        return self.pid % 100


def made(
    pid: int,
    parent: int,
    comm: str = "tool",
    environ: Mapping[str, str] | None = None,
    *,
    start: int | None = None,
    state: str = "S",
    uid: int = ME,
    argv: tuple[str, ...] = (),
    namespace: str = "pid:[1]",
) -> Process:
    """In its own namespace, its pid is the last two digits of ours."""
    process = Described(ProcessIdentity(BOOT, pid, pid if start is None else start), parent, state, comm)
    process._described, process._uid, process._argv = True, uid, argv
    process._environ, process._namespace = dict(environ or {}), namespace
    return process


def looked(*processes: Process, family: Family | None = None, us: int = 1) -> Tree:
    table = {process.pid: process for process in (made(1, 0, "init"), *processes)}
    return (family or Family(table[10])).look(table, us=us)


def pids(tree: Tree) -> list[int]:
    return sorted(process.pid for process in tree.members)


def test_descendants_whatever_their_environment() -> None:
    tree = looked(made(10, 1, "agent"), made(11, 10), made(12, 11), made(13, 1))
    assert pids(tree) == [11, 12]
    assert (tree.not_ours, tree.spared) == ((), ())


def test_a_zombie_is_not_among_them() -> None:
    assert pids(looked(made(10, 1, "agent"), made(11, 10, state="Z"), made(12, 10))) == [12]


def test_a_child_is_not_older_than_its_parent() -> None:
    """The table is not read in one instant: a pid may change hands meanwhile."""
    assert pids(looked(made(10, 1, "agent", start=50), made(11, 10, start=49))) == []


def test_a_marker_finds_those_that_have_another_parent() -> None:
    owner = made(10, 1, "agent", start=50)
    told, other = {"AGENT_PID": "10"}, {"AGENT_PID": "99"}
    family = Family(owner, markers=[("AGENT_PID", "10")])
    tree = looked(
        owner,
        made(20, 1, environ=told, start=50),
        made(21, 20, start=51),
        made(22, 1, environ=told, start=49),  # the pid was another agent's then
        made(23, 1, environ=other, start=60),
        family=family,
    )
    assert pids(tree) == [20, 21]


def test_a_pid_as_marker_counts_in_the_owners_own_namespace_only() -> None:
    """In each container the pids begin at 1 again."""
    owner = made(310, 1, "agent", start=50, namespace="pid:[3]")
    inner, outer = {"AGENT_PID": "10"}, {"AGENT_PID": "310"}
    tree = looked(
        owner,
        made(320, 1, environ=inner, namespace="pid:[3]"),
        made(321, 1, environ=outer, namespace="pid:[3]"),  # the number that we know it by
        made(420, 1, environ=inner, namespace="pid:[4]"),  # of the agent 10 in another container
        made(520, 1, environ=outer),  # of an agent 310 out here, which has ended
        made(322, 1, environ=inner, namespace="pid:[3]", start=49),
        family=Family(owner, pid_markers=["AGENT_PID"]),
    )
    assert pids(tree) == [320]


def test_an_id_as_marker_counts_in_every_namespace() -> None:
    """Tools may run in a sandbox with pids of its own."""
    owner, told = made(10, 1, "agent"), {"AGENT_SESSION": "s1", "AGENT_PID": "77"}
    family = Family(owner, markers=[("AGENT_SESSION", "s1")], pid_markers=["AGENT_PID"])
    assert pids(looked(owner, made(20, 1, environ=told, namespace="pid:[2]"), family=family)) == [20]


def test_the_launch_id_finds_them_also_when_the_owner_is_gone() -> None:
    family = Family(None, "ours", [("AGENT_PID", "10")])
    tree = looked(
        made(20, 1, environ=LAUNCHED),
        made(21, 1, environ={LAUNCH: "another"}),
        made(22, 1, environ={"AGENT_PID": "10"}),  # of which agent 10, nobody can tell any more
        family=family,
    )
    assert pids(tree) == [20]


def test_the_shim_its_orphans_and_its_hook() -> None:
    """What was orphaned is the shim's child now, whatever its environment; the hook is a person's."""
    owner = made(10, 5, "agent", LAUNCHED)
    family = Family(owner, "ours")
    shim = made(5, 1, SHIM, LAUNCHED)
    tree = looked(
        shim,
        owner,
        made(11, 5, environ={}),
        made(12, 5, environ={**LAUNCHED, HOOK: "ours/on-complete"}),
        made(13, 12, environ={}),
        made(14, 5, environ={**LAUNCHED, HOOK: "another/on-complete"}),  # its launcher was a hook
        family=family,
    )
    assert pids(tree) == [11, 14]
    assert family.shim({5: shim, 10: owner}) is shim


def test_once_the_owner_is_gone_the_shims_children_are_not_ours_by_birth() -> None:
    """It is doing its finishing work: only what is marked is a tool."""
    family = Family(made(10, 5, "agent", LAUNCHED), "ours")
    shim = made(5, 1, SHIM, LAUNCHED)
    assert pids(looked(shim, made(11, 5), made(12, 5, environ=LAUNCHED), family=family)) == [12]


def test_a_launch_from_inside_is_a_session_of_its_own() -> None:
    tree = looked(
        made(10, 1, "agent"),
        made(11, 10, SHIM, {LAUNCH: "inner"}),
        made(12, 11, "agent", {LAUNCH: "inner"}),
        made(13, 12, environ={LAUNCH: "inner"}),
        made(14, 10, "agent", {LAUNCH: "its shim was killed"}),
        made(15, 14),
        made(16, 10),
    )
    assert pids(tree) == [16]
    assert [left.pid for left in tree.spared] == [14]
    assert "a session of its own" in tree.spared[0].why


def test_a_launched_agents_tools_have_its_launch_id_though_the_note_is_lost() -> None:
    owner = made(10, 1, "agent", LAUNCHED)
    assert pids(looked(owner, made(11, 10, environ=LAUNCHED), family=Family(owner))) == [11]


def test_ourselves_and_the_shell_we_run_in_are_spared() -> None:
    told = {"AGENT_PID": "10"}
    owner = made(10, 2, "agent")
    tree = looked(
        made(2, 1, "tmux", told),
        owner,
        made(11, 10, "bash"),
        made(12, 11, "agentctl"),
        made(13, 11, "sleep"),
        made(14, 12, "sleep"),
        family=Family(owner, markers=[("AGENT_PID", "10")]),
        us=12,
    )
    assert pids(tree) == [13, 14]
    assert [(left.pid, left.why) for left in tree.spared] == [
        (11, "bash: agentctl runs in it"),
        (12, "agentctl: this very agentctl"),
    ]


def owned(process: Process, entry: EntryPoint) -> Session:
    evidence = (Evidence("alive", process.identity.address, "kernel"),)
    return Session(
        Observation("demo", "other", evidence, Facts(entry_point=entry), process), judge(evidence)
    )


def test_a_server_that_was_started_from_its_shell_serves_others_too() -> None:
    owner, told = made(10, 1, "agent"), {"AGENT_PID": "10"}
    server, orphan = made(20, 10, "codex", told), made(30, 1, "codex", told)
    below = [made(21, 20, environ=told), made(31, 30, environ=told), made(32, 31, environ=told)]
    others = [owned(server, "daemon"), owned(orphan, "daemon"), owned(orphan, "daemon")]
    family = Family(owner, markers=[("AGENT_PID", "10")], among=others)
    tree = looked(owner, server, orphan, *below, made(40, 1, environ=told), family=family)
    assert pids(tree) == [40]
    assert sorted(left.pid for left in tree.spared) == [20, 30]


def test_a_terminal_that_was_opened_there_is_somebodys_unless_it_is_its_child() -> None:
    owner, told = made(10, 1, "agent"), {"AGENT_PID": "10"}
    child, apart, tool = made(20, 10, "pi", told), made(30, 1, "pi", told), made(40, 1, "pi", told)
    others = [owned(owner, "interactive"), owned(child, "interactive"), owned(apart, "interactive")]
    family = Family(owner, markers=[("AGENT_PID", "10")], among=[*others, owned(tool, "headless")])
    tree = looked(owner, child, apart, made(31, 30, environ=told), tool, family=family)
    assert pids(tree) == [20, 40]
    assert [(left.pid, left.why) for left in tree.spared] == [(30, "pi: runs a session of its own")]


def test_an_agent_that_runs_inside_another() -> None:
    """The outer one is a session of its own, and nothing of the inner one is the outer one's."""
    outer, owner, told = made(5, 1, "claude"), made(10, 6, "agent"), {"AGENT_PID": "10"}
    tree = looked(
        outer,
        made(6, 5, "bash"),
        owner,
        made(11, 10, environ=told),
        made(12, 5, environ=told),
        made(13, 6),
        family=Family(owner, markers=[("AGENT_PID", "10")], among=[owned(outer, "interactive")]),
    )
    assert pids(tree) == [11, 12]
    assert tree.spared == ()


def test_another_users_is_named_and_its_children_are_looked_at() -> None:
    tree = looked(made(10, 1, "agent"), made(11, 10, "su", uid=ME + 1), made(12, 11))
    assert pids(tree) == [12]
    assert [process.pid for process in tree.not_ours] == [11]


def test_confined_to_a_stage_by_environment_but_never_from_descendants() -> None:
    owner = made(10, 1, "agent", {"STAGE": "mine"})
    family = Family(owner, "ours", confine="STAGE=mine")
    tree = looked(
        owner,
        made(11, 10),
        made(12, 1, environ={**LAUNCHED, "STAGE": "mine"}),
        made(13, 1, environ={**LAUNCHED, "STAGE": "another"}),
        made(14, 1, environ=LAUNCHED),
        family=family,
    )
    assert pids(tree) == [11, 12]


@pytest.mark.parametrize(
    ("comm", "argv", "expected"),
    [
        (SHIM, (), True),
        ("python3", tuple(ours.shim(200, 201, 202)), True),
        ("python", ("python", "-I", "-c", f"{OURSELVES}finish import main; main()"), True),
        ("python", ("python", "-c", "from agentctl.launch.finish import main"), False),
        ("grep", ("grep", "-r", "agentctl.control."), False),
        ("python3", (), False),
    ],
)  # fmt: skip
def test_what_is_ours_is_known_by_its_name_or_its_words(
    comm: str, argv: tuple[str, ...], expected: bool
) -> None:
    assert is_control(made(9, 1, comm, argv=argv)) is expected


def test_what_lets_a_launch_expire_is_not_its_shim() -> None:
    program = f"{OURSELVES}expire import main; main()"
    expiring = made(6, 5, "python3", LAUNCHED, argv=("python3", "-I", "-c", program))
    assert Family(None, "ours").shim({6: expiring}) is None
    assert is_control(expiring)


@st.composite
def tables(draw: st.DrawFn) -> dict[int, Process]:
    """Any forest with an owner 10 in it; parents may be missing, dead, ours, or of another launch."""
    numbers = draw(st.lists(st.integers(2, 40), unique=True, max_size=25))
    table = {1: made(1, 0, "init")}
    for pid in {10, *numbers}:
        parent = draw(st.sampled_from([0, 1, *numbers])) if pid != 10 else 1
        table[pid] = made(
            pid,
            parent,
            draw(st.sampled_from(["tool", "tool", SHIM])) if pid != 10 else "agent",
            draw(st.sampled_from([{}, {}, {LAUNCH: "another"}])) if pid != 10 else {},
            start=draw(st.integers(0, 4)),
            state=draw(st.sampled_from("SSSZ")) if pid != 10 else "S",
            uid=draw(st.sampled_from([ME, ME, ME + 1])),
        )
    return table


def belongs(process: Process, table: Mapping[int, Process]) -> bool:
    """The same, asked from below: is every one between it and the owner one of the agent's?"""
    seen = set()
    while process.pid != 10:
        foreign = process.alive and (process.comm == SHIM or LAUNCH in process.environ())
        parent = table.get(process.parent)
        if foreign or parent is None or process.pid in seen:
            return False
        if process.identity.start < parent.identity.start:
            return False
        seen.add(process.pid)
        process = parent
    return True


@given(tables(), st.integers(1, 40))
def test_any_table(table: dict[int, Process], us: int) -> None:
    tree = Family(table[10]).look(table, us=us)
    line, pid = set(), us
    while pid in table and pid not in line:
        line.add(pid)
        pid = table[pid].parent
    expected = {
        p.pid
        for p in table.values()
        if p.alive and p.pid not in (10, 1) and p.pid not in line and belongs(p, table)
    }
    assert {p.pid for p in tree.members} == {p for p in expected if table[p].uid == ME}
    assert {p.pid for p in tree.not_ours} == {p for p in expected if table[p].uid != ME}
    assert not line & {p.pid for p in tree.members}


# and of the machine


def family(stage: Doomed, agent: Puppet) -> Family:
    owner = stage.row(agent).seen.owner
    return Family(owner, pid_markers=["DEMO_AGENT_PID"], confine=stage.environ["AGENTCTL_CONFINE"])


def test_real_tools_orphaned_or_not(stage: Doomed) -> None:
    agent, _ = stage.working()
    agent.do("tool")
    orphan = stage.left_behind(agent)
    stage.left_behind(agent, DEMO_AGENT_PID="1")
    until(lambda: len(stage.living("sleep")) == 3, "all tools run")
    found = family(stage, agent).look(proc.read_table())
    assert sorted(p.comm for p in found.members) == ["sleep", "sleep"]
    assert orphan.identity in {p.identity for p in found.members}


def test_a_process_that_ends_while_we_look_is_no_error(stage: Doomed) -> None:
    agent, _ = stage.working()
    with Stranger("brief", {**stage.environ, "DEMO_AGENT_PID": str(agent.pid)}, stage.work) as brief:
        table, seen = proc.read_table(), family(stage, agent)
        brief.end()
        assert brief.pid in table
        assert seen.look(table).members == ()


@pytest.mark.skipif(ME != 0, reason="only root can start another user's process")
def test_a_real_process_of_another_user(stage: Doomed) -> None:
    agent, _ = stage.working()
    environ = {**stage.environ, "DEMO_AGENT_PID": str(agent.pid)}
    with subprocess.Popen(["sleep", "1000"], env=environ, user=4242, group=4242) as child:
        wait_for_program(child.pid)
        found = family(stage, agent).look(proc.read_table())
        child.kill()
    assert [process.pid for process in found.not_ours] == [child.pid]


def test_what_we_run_in_is_spared_also_when_its_parent_is_gone() -> None:
    """A wrapper around the agent ends by itself then, and tells its exit code; our shell goes on."""
    owner, shell = made(10, 9, "agent", LAUNCHED), made(11, 10, "sh", LAUNCHED)
    wrapper = made(9, 1, "node", LAUNCHED)
    family, us = Family(owner, "ours"), made(12, 11, "agentctl", LAUNCHED)
    before = family.look({each.pid: each for each in (wrapper, owner, shell, us)}, us=12)
    assert (pids(before), sorted(left.pid for left in before.spared)) == ([], [9, 11, 12])
    orphan, tool = made(11, 1, "sh", LAUNCHED), made(13, 11, "tool", LAUNCHED)
    after = family.look({each.pid: each for each in (wrapper, orphan, tool)}, us=12)  # we were killed
    assert (pids(after), sorted(left.pid for left in after.spared)) == ([13], [9, 11])


def test_whether_we_run_inside() -> None:
    table = proc.read_table()
    parent = table[os.getppid()]
    assert inside(parent, table)
    assert not inside(table[os.getpid()], table)
