"""Which processes belong to a session, and which only look like it."""

import os
import subprocess
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.process import ours
from agentctl.process.ours import HOOK, LAUNCH
from agentctl.process.relatives import Relatives
from agentctl.process.tree import ProcessFamily, is_control, runs_inside
from agentctl.system import proc
from agentctl.system.proc import Process, ProcessIdentity
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
    """A process of a table that the test makes up."""

    def read_inner_pid(self) -> int:
        return self.pid % 100


def make_process(
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


def find_relatives(
    *processes: Process, family: ProcessFamily | None = None, caller: int = 1
) -> Relatives:
    table = {process.pid: process for process in (make_process(1, 0, "init"), *processes)}
    return (family or ProcessFamily(table[10])).find_relatives(table, caller=caller)


def pids(tree: Relatives) -> list[int]:
    return sorted(process.pid for process in tree.members)


def test_descendants_belong_whatever_their_environment() -> None:
    tree = find_relatives(
        make_process(10, 1, "agent"), make_process(11, 10), make_process(12, 11), make_process(13, 1)
    )
    assert pids(tree) == [11, 12]
    assert (tree.not_ours, tree.spared) == ((), ())


def test_a_zombie_does_not_belong() -> None:
    assert pids(
        find_relatives(
            make_process(10, 1, "agent"), make_process(11, 10, state="Z"), make_process(12, 10)
        )
    ) == [12]


def test_a_child_is_not_older_than_its_parent() -> None:
    """The table is not read in one instant: a pid may change hands meanwhile."""
    assert (
        pids(find_relatives(make_process(10, 1, "agent", start=50), make_process(11, 10, start=49)))
        == []
    )


def test_a_marker_finds_processes_with_another_parent() -> None:
    owner = make_process(10, 1, "agent", start=50)
    marker, other = {"AGENT_PID": "10"}, {"AGENT_PID": "99"}
    family = ProcessFamily(owner, markers=[("AGENT_PID", "10")])
    tree = find_relatives(
        owner,
        make_process(20, 1, environ=marker, start=50),
        make_process(21, 20, start=51),
        make_process(22, 1, environ=marker, start=49),  # the pid was another agent's then
        make_process(23, 1, environ=other, start=60),
        family=family,
    )
    assert pids(tree) == [20, 21]


def test_a_pid_as_marker_counts_in_the_owners_own_namespace_only() -> None:
    """In each container the pids begin at 1 again."""
    owner = make_process(310, 1, "agent", start=50, namespace="pid:[3]")
    inner, outer = {"AGENT_PID": "10"}, {"AGENT_PID": "310"}
    tree = find_relatives(
        owner,
        make_process(320, 1, environ=inner, namespace="pid:[3]"),
        make_process(321, 1, environ=outer, namespace="pid:[3]"),  # the number that we know it by
        make_process(420, 1, environ=inner, namespace="pid:[4]"),  # of the agent 10 in another container
        make_process(520, 1, environ=outer),  # of an agent 310 out here, which has ended
        make_process(322, 1, environ=inner, namespace="pid:[3]", start=49),
        family=ProcessFamily(owner, pid_markers=["AGENT_PID"]),
    )
    assert pids(tree) == [320]


def test_an_id_as_marker_counts_in_every_namespace() -> None:
    """Tools may run in a sandbox with pids of its own."""
    owner, marker = make_process(10, 1, "agent"), {"AGENT_SESSION": "s1", "AGENT_PID": "77"}
    family = ProcessFamily(owner, markers=[("AGENT_SESSION", "s1")], pid_markers=["AGENT_PID"])
    assert pids(
        find_relatives(owner, make_process(20, 1, environ=marker, namespace="pid:[2]"), family=family)
    ) == [20]


def test_the_launch_id_finds_processes_also_when_the_owner_is_gone() -> None:
    family = ProcessFamily(None, "ours", [("AGENT_PID", "10")])
    tree = find_relatives(
        make_process(20, 1, environ=LAUNCHED),
        make_process(21, 1, environ={LAUNCH: "another"}),
        make_process(22, 1, environ={"AGENT_PID": "10"}),  # it is unknown which agent 10 this was
        family=family,
    )
    assert pids(tree) == [20]


def test_orphans_of_the_shim_belong_and_its_hook_does_not() -> None:
    """An orphan is the shim's child now, whatever its environment; the hook is the user's."""
    owner = make_process(10, 5, "agent", LAUNCHED)
    family = ProcessFamily(owner, "ours")
    shim = make_process(5, 1, SHIM, LAUNCHED)
    tree = find_relatives(
        shim,
        owner,
        make_process(11, 5, environ={}),
        make_process(12, 5, environ={**LAUNCHED, HOOK: "ours/on-complete"}),
        make_process(13, 12, environ={}),
        make_process(
            14, 5, environ={**LAUNCHED, HOOK: "another/on-complete"}
        ),  # its launcher was a hook
        family=family,
    )
    assert pids(tree) == [11, 14]
    assert family.find_shim({5: shim, 10: owner}) is shim


def test_without_an_owner_children_of_the_shim_need_a_marker() -> None:
    """The shim does its finishing work by then."""
    family = ProcessFamily(make_process(10, 5, "agent", LAUNCHED), "ours")
    shim = make_process(5, 1, SHIM, LAUNCHED)
    assert pids(
        find_relatives(shim, make_process(11, 5), make_process(12, 5, environ=LAUNCHED), family=family)
    ) == [12]


def test_a_launch_from_inside_is_a_session_of_its_own() -> None:
    tree = find_relatives(
        make_process(10, 1, "agent"),
        make_process(11, 10, SHIM, {LAUNCH: "inner"}),
        make_process(12, 11, "agent", {LAUNCH: "inner"}),
        make_process(13, 12, environ={LAUNCH: "inner"}),
        make_process(14, 10, "agent", {LAUNCH: "its shim was killed"}),
        make_process(15, 14),
        make_process(16, 10),
    )
    assert pids(tree) == [16]
    assert [each.pid for each in tree.spared] == [14]
    assert "a session of its own" in tree.spared[0].why


def test_the_launch_id_of_the_owner_counts_when_the_note_is_lost() -> None:
    owner = make_process(10, 1, "agent", LAUNCHED)
    assert pids(
        find_relatives(owner, make_process(11, 10, environ=LAUNCHED), family=ProcessFamily(owner))
    ) == [11]


def test_agentctl_and_the_shell_it_runs_in_are_spared() -> None:
    marker = {"AGENT_PID": "10"}
    owner = make_process(10, 2, "agent")
    tree = find_relatives(
        make_process(2, 1, "tmux", marker),
        owner,
        make_process(11, 10, "bash"),
        make_process(12, 11, "agentctl"),
        make_process(13, 11, "sleep"),
        make_process(14, 12, "sleep"),
        family=ProcessFamily(owner, markers=[("AGENT_PID", "10")]),
        caller=12,
    )
    assert pids(tree) == [13, 14]
    assert [(each.pid, each.why) for each in tree.spared] == [
        (11, "bash: agentctl runs in it"),
        (12, "agentctl: this very agentctl"),
    ]


def make_session(process: Process, entry: EntryPoint) -> Session:
    evidence = (Evidence("alive", process.identity.address, "kernel"),)
    return Session(
        Observation("demo", "other", evidence, Facts(entry_point=entry), process), judge(evidence)
    )


def test_a_server_that_was_started_from_its_shell_is_spared() -> None:
    owner, marker = make_process(10, 1, "agent"), {"AGENT_PID": "10"}
    server, orphan = make_process(20, 10, "codex", marker), make_process(30, 1, "codex", marker)
    below = [
        make_process(21, 20, environ=marker),
        make_process(31, 30, environ=marker),
        make_process(32, 31, environ=marker),
    ]
    others = [
        make_session(server, "daemon"),
        make_session(orphan, "daemon"),
        make_session(orphan, "daemon"),
    ]
    family = ProcessFamily(owner, markers=[("AGENT_PID", "10")], among=others)
    tree = find_relatives(
        owner, server, orphan, *below, make_process(40, 1, environ=marker), family=family
    )
    assert pids(tree) == [40]
    assert sorted(each.pid for each in tree.spared) == [20, 30]


def test_an_agent_at_a_terminal_is_spared_unless_it_is_a_child() -> None:
    owner, marker = make_process(10, 1, "agent"), {"AGENT_PID": "10"}
    child, apart, tool = (
        make_process(20, 10, "pi", marker),
        make_process(30, 1, "pi", marker),
        make_process(40, 1, "pi", marker),
    )
    others = [
        make_session(owner, "interactive"),
        make_session(child, "interactive"),
        make_session(apart, "interactive"),
    ]
    family = ProcessFamily(
        owner, markers=[("AGENT_PID", "10")], among=[*others, make_session(tool, "headless")]
    )
    tree = find_relatives(owner, child, apart, make_process(31, 30, environ=marker), tool, family=family)
    assert pids(tree) == [20, 40]
    assert [(each.pid, each.why) for each in tree.spared] == [(30, "pi: runs a session of its own")]


def test_an_agent_that_runs_inside_another() -> None:
    """The outer one is a session of its own, and nothing of the inner one is the outer one's."""
    outer, owner, marker = (
        make_process(5, 1, "claude"),
        make_process(10, 6, "agent"),
        {"AGENT_PID": "10"},
    )
    tree = find_relatives(
        outer,
        make_process(6, 5, "bash"),
        owner,
        make_process(11, 10, environ=marker),
        make_process(12, 5, environ=marker),
        make_process(13, 6),
        family=ProcessFamily(
            owner, markers=[("AGENT_PID", "10")], among=[make_session(outer, "interactive")]
        ),
    )
    assert pids(tree) == [11, 12]
    assert tree.spared == ()


def test_a_process_of_another_user_is_named_and_its_children_belong() -> None:
    tree = find_relatives(
        make_process(10, 1, "agent"), make_process(11, 10, "su", uid=ME + 1), make_process(12, 11)
    )
    assert pids(tree) == [12]
    assert [process.pid for process in tree.not_ours] == [11]


def test_confinement_excludes_marked_processes_but_no_descendants() -> None:
    owner = make_process(10, 1, "agent", {"STAGE": "mine"})
    family = ProcessFamily(owner, "ours", confine="STAGE=mine")
    tree = find_relatives(
        owner,
        make_process(11, 10),
        make_process(12, 1, environ={**LAUNCHED, "STAGE": "mine"}),
        make_process(13, 1, environ={**LAUNCHED, "STAGE": "another"}),
        make_process(14, 1, environ=LAUNCHED),
        family=family,
    )
    assert pids(tree) == [11, 12]


@pytest.mark.parametrize(
    ("comm", "argv", "expected"),
    [
        (SHIM, (), True),
        ("python3", tuple(ours.shim_command(200, 201, 202)), True),
        ("python", ("python", "-I", "-c", f"{OURSELVES}finish import main; main()"), True),
        ("python", ("python", "-c", "from agentctl.launch.finish import main"), False),
        ("grep", ("grep", "-r", "agentctl.control."), False),
        ("python3", (), False),
    ],
)  # fmt: skip
def test_our_processes_are_known_by_name_or_arguments(
    comm: str, argv: tuple[str, ...], expected: bool
) -> None:
    assert is_control(make_process(9, 1, comm, argv=argv)) is expected


def test_the_process_that_expires_a_launch_is_not_its_shim() -> None:
    program = f"{OURSELVES}expire import main; main()"
    expiring = make_process(6, 5, "python3", LAUNCHED, argv=("python3", "-I", "-c", program))
    assert ProcessFamily(None, "ours").find_shim({6: expiring}) is None
    assert is_control(expiring)


@st.composite
def tables(draw: st.DrawFn) -> dict[int, Process]:
    """Any forest with an owner 10 in it; parents may be missing, dead, ours, or of another launch."""
    numbers = draw(st.lists(st.integers(2, 40), unique=True, max_size=25))
    table = {1: make_process(1, 0, "init")}
    for pid in {10, *numbers}:
        parent = draw(st.sampled_from([0, 1, *numbers])) if pid != 10 else 1
        table[pid] = make_process(
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
    """The same rule from below: is every process between it and the owner one of the agent's?"""
    visited = set()
    while process.pid != 10:
        foreign = process.is_alive and (process.comm == SHIM or LAUNCH in process.environ())
        parent = table.get(process.parent)
        if foreign or parent is None or process.pid in visited:
            return False
        if process.identity.start < parent.identity.start:
            return False
        visited.add(process.pid)
        process = parent
    return True


@given(tables(), st.integers(1, 40))
def test_any_table(table: dict[int, Process], caller: int) -> None:
    tree = ProcessFamily(table[10]).find_relatives(table, caller=caller)
    line, pid = set(), caller
    while pid in table and pid not in line:
        line.add(pid)
        pid = table[pid].parent
    expected = {
        p.pid
        for p in table.values()
        if p.is_alive and p.pid not in (10, 1) and p.pid not in line and belongs(p, table)
    }
    assert {p.pid for p in tree.members} == {p for p in expected if table[p].uid == ME}
    assert {p.pid for p in tree.not_ours} == {p for p in expected if table[p].uid != ME}
    assert not line & {p.pid for p in tree.members}


# real processes


def family(stage: Doomed, agent: Puppet) -> ProcessFamily:
    owner = stage.row(agent).observation.owner
    return ProcessFamily(
        owner, pid_markers=["DEMO_AGENT_PID"], confine=stage.environ["AGENTCTL_CONFINE"]
    )


def test_real_tools_orphaned_or_not(stage: Doomed) -> None:
    agent, _ = stage.working()
    agent.do("tool")
    orphan = stage.left_behind(agent)
    stage.left_behind(agent, DEMO_AGENT_PID="1")
    until(lambda: len(stage.living("sleep")) == 3, "all tools run")
    relatives = family(stage, agent).find_relatives(proc.read_table())
    assert sorted(p.comm for p in relatives.members) == ["sleep", "sleep"]
    assert orphan.identity in {p.identity for p in relatives.members}


def test_a_process_that_ends_while_we_look_is_no_error(stage: Doomed) -> None:
    agent, _ = stage.working()
    with Stranger("brief", {**stage.environ, "DEMO_AGENT_PID": str(agent.pid)}, stage.work) as brief:
        table, processes = proc.read_table(), family(stage, agent)
        brief.end()
        assert brief.pid in table
        assert processes.find_relatives(table).members == ()


@pytest.mark.skipif(ME != 0, reason="only root can start another user's process")
def test_a_real_process_of_another_user(stage: Doomed) -> None:
    agent, _ = stage.working()
    environ = {**stage.environ, "DEMO_AGENT_PID": str(agent.pid)}
    with subprocess.Popen(["sleep", "1000"], env=environ, user=4242, group=4242) as child:
        wait_for_program(child.pid)
        relatives = family(stage, agent).find_relatives(proc.read_table())
        child.kill()
    assert [process.pid for process in relatives.not_ours] == [child.pid]


def test_processes_that_we_run_in_are_spared_when_their_parent_is_gone() -> None:
    """A wrapper around the agent ends then and passes on its exit code; our shell goes on."""
    owner, shell = make_process(10, 9, "agent", LAUNCHED), make_process(11, 10, "sh", LAUNCHED)
    wrapper = make_process(9, 1, "node", LAUNCHED)
    family, us = ProcessFamily(owner, "ours"), make_process(12, 11, "agentctl", LAUNCHED)
    before = family.find_relatives({each.pid: each for each in (wrapper, owner, shell, us)}, caller=12)
    assert (pids(before), sorted(each.pid for each in before.spared)) == ([], [9, 11, 12])
    orphan, tool = make_process(11, 1, "sh", LAUNCHED), make_process(13, 11, "tool", LAUNCHED)
    after = family.find_relatives(
        {each.pid: each for each in (wrapper, orphan, tool)}, caller=12
    )  # we were killed
    assert (pids(after), sorted(each.pid for each in after.spared)) == ([13], [9, 11])


def test_we_run_inside_our_parent_and_not_in_ourselves() -> None:
    table = proc.read_table()
    parent = table[os.getppid()]
    assert runs_inside(parent, table)
    assert not runs_inside(table[os.getpid()], table)
