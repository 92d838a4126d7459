"""From a wish to one exact start: the program, its words, its environment. Nothing is started."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctl.adapters.plans import Command, LaunchRequest
from agentctl.errors import StartFailed, UsageError
from agentctl.launch import order
from agentctl.launch.order import Prepared, Wish, prepared
from agentctl.process.ours import LAUNCH
from agentctl.truth.model import Facts, Observation, Worktree

CALLER = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "LANG": "C"}


class Agent:
    """Says what it was asked, and starts what the test wants."""

    permission_modes = ("plan", "all")

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, LaunchRequest]] = []
        self.command = Command(("sh", "-x"), "")

    def launch(self, request: LaunchRequest) -> Command:
        self.asked.append((None, request))
        return self.command._replace(cwd=request.cwd, stdin=request.prompt.encode())

    def resume(self, seen: Observation, request: LaunchRequest) -> Command:
        self.asked.append((seen.session_id, request))
        return self.command._replace(cwd=request.cwd)


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    made = Agent()
    monkeypatch.setattr(order, "load", lambda _: made)
    return made


def _prepared(tmp_path: Path, caller: dict[str, str] | None = None, **more: object) -> Prepared:
    wish = Wish("any", "do it", str(tmp_path))._replace(**more)  # type: ignore[arg-type]
    return prepared(wish, CALLER if caller is None else caller)


def test_the_agent_gets_the_callers_environment(agent: Agent, tmp_path: Path) -> None:
    start = _prepared(tmp_path)
    marker = start.order.environ[LAUNCH]
    assert start.order.environ == {**CALLER, "PWD": str(tmp_path), LAUNCH: marker}
    assert dict(start.added) == {"PWD": str(tmp_path), LAUNCH: marker}
    assert start.removed == ()
    assert marker == start.order.id
    assert agent.asked[0][1].environ == start.order.environ


def test_no_two_launches_have_one_id(agent: Agent, tmp_path: Path) -> None:
    assert agent.asked == []
    assert len({_prepared(tmp_path).order.id for _ in range(50)}) == 50


def test_outer_agents_marks_are_taken_away(agent: Agent, tmp_path: Path) -> None:
    outer = {"CLAUDECODE": "1", "AGENTCTL_LAUNCH_ID": "outer", "AGENTCTL_HOOK": "outer/on-complete"}
    start = _prepared(tmp_path, {**CALLER, **outer, "ANTHROPIC_API_KEY": "k"})
    assert start.order.environ.get("CLAUDECODE") is None
    assert start.order.environ.get("AGENTCTL_HOOK") is None  # or it would end with that hook
    assert start.order.environ[LAUNCH] == start.order.id
    assert start.order.environ["ANTHROPIC_API_KEY"] == "k"
    assert set(start.removed) == {"CLAUDECODE", "AGENTCTL_HOOK"}
    assert agent.asked[0][1].environ.get("CLAUDECODE") is None


def test_what_the_person_sets_wins(agent: Agent, tmp_path: Path) -> None:
    agent.command = agent.command._replace(
        set=(("SAFE", "adapter"), ("QUIET", "1")), unset=("LANG", "TERM", "ALSO")
    )
    said = (("SAFE", "person"), ("LANG", "de"), ("CLAUDECODE", "yes"), ("LANG", "fr"), ("EMPTY", ""))
    start = _prepared(tmp_path, {**CALLER, "TERM": "xterm", "CLAUDECODE": "1"}, environ=said)
    environ = start.order.environ
    assert {name: environ.get(name) for name in ("SAFE", "QUIET", "LANG", "CLAUDECODE", "EMPTY")} == {
        "SAFE": "person",
        "QUIET": "1",
        "LANG": "fr",
        "CLAUDECODE": "yes",
        "EMPTY": "",
    }
    assert "TERM" not in environ
    assert start.removed == ("TERM",)  # not what the caller never had, nor what the person set again
    assert dict(start.added)["CLAUDECODE"] == "yes"


def test_what_the_adapter_adds_to_what_the_person_sets_is_kept(tmp_path: Path) -> None:
    """OpenCode takes a system prompt in one variable with the person's own settings."""
    said = (("OPENCODE_CONFIG_CONTENT", '{"share": "disabled"}'),)
    start = _prepared(tmp_path, adapter="opencode", binary="sh", environ=said, system_prompt="be brief")
    told = json.loads(start.order.environ["OPENCODE_CONFIG_CONTENT"])
    assert told["share"] == "disabled"
    assert told["instructions"] != []


def test_our_own_mark_is_nobodys_to_set(agent: Agent, tmp_path: Path) -> None:
    """By it `stop` finds what an agent leaves behind."""
    start = _prepared(tmp_path, environ=((LAUNCH, "mine"),))
    assert start.order.environ[LAUNCH] == start.order.id
    assert agent.asked[0][1].environ[LAUNCH] == start.order.id


def test_the_program_is_looked_for_where_the_agent_would(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "sh"
    program.write_text("#!/bin/true\n")
    program.chmod(0o755)
    start = _prepared(tmp_path, environ=(("PATH", f"{tmp_path}/bin"),))
    assert start.order.command.argv == (str(program), "-x")
    assert agent.command.argv == ("sh", "-x")
    assert _prepared(tmp_path).order.command.argv == ("/usr/bin/sh", "-x")


def test_another_program_may_be_named(agent: Agent, tmp_path: Path) -> None:
    assert agent.asked == []
    assert _prepared(tmp_path, binary="true").order.command.argv == ("/usr/bin/true", "-x")
    with pytest.raises(StartFailed, match="no-such-agent is not installed") as told:
        _prepared(tmp_path, binary="no-such-agent")
    assert "/usr/bin, /bin" in told.value.hint


def test_permission_modes_are_the_agents_own(agent: Agent, tmp_path: Path) -> None:
    _prepared(tmp_path, permission_mode="plan")
    assert agent.asked[-1][1].permission_mode == "plan"
    with pytest.raises(UsageError, match="any has no permission mode 'yolo'") as told:
        _prepared(tmp_path, permission_mode="yolo")
    assert told.value.hint == "it knows plan, all"


def test_an_agent_may_have_no_permission_modes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="demo has no permission mode 'yolo'") as told:
        _prepared(tmp_path, adapter="demo", permission_mode="yolo")
    assert told.value.hint == "it has none"


def test_where_it_cannot_be_started(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (f"{tmp_path}/none", f"{tmp_path}/file", "a\0b", ""):
        with pytest.raises(UsageError, match="not a directory"):
            _prepared(tmp_path, cwd=path)
    assert agent.asked == []


def test_its_directory_has_one_name(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    start = _prepared(tmp_path, cwd=f"{tmp_path}/link")
    assert start.order.command.cwd == start.order.environ["PWD"] == f"{tmp_path}/real"
    assert agent.asked[0][1].cwd == f"{tmp_path}/real"


def test_all_that_was_wished_for_is_ordered(agent: Agent, tmp_path: Path) -> None:
    tree = Worktree("/repo", str(tmp_path), "b", "c")
    wish = Wish(
        "any", "do it", str(tmp_path), "m", "n", "g", "/spec", (("k", "v"),), (), "be kind", "all",
        ("--x",), None, tree, "create", "complete", 5.0, True,
    )  # fmt: skip
    told = prepared(wish, CALLER).order
    [(resumed, request)] = agent.asked
    assert resumed is None
    assert request[:2] == ("do it", str(tmp_path))
    assert request[3:8] == ("m", "n", "be kind", "all", ("--x",))
    assert told.command.stdin == b"do it"
    assert (told.adapter, told.name, told.group, told.spec, told.model) == (
        "any",
        "n",
        "g",
        "/spec",
        "m",
    )
    assert (told.meta, told.worktree) == ((("k", "v"),), tree)
    assert (told.on_create, told.on_complete, told.timeout, told.force) == (
        "create",
        "complete",
        5.0,
        True,
    )
    assert told.at > 0


def test_a_resumed_session_is_named_to_the_adapter(agent: Agent, tmp_path: Path) -> None:
    seen = Observation("any", "4f2a", (), Facts(last_activity_at=7.0))
    told = prepared(Wish("any", "go on", str(tmp_path)), CALLER, seen)
    assert told.order.before == 7.0  # a word in it that is not younger is no sign of life
    assert [(resumed, request.prompt) for resumed, request in agent.asked] == [("4f2a", "go on")]


def test_a_real_adapter(tmp_path: Path) -> None:
    start = _prepared(
        tmp_path, {**CALLER, "PWD": "/old"}, adapter="demo", model="m1", native=("--late", "1")
    )
    words = (sys.executable, "-P", "-m", "agentctl.demo.agent", "--model", "m1", "--late", "1", "-")
    assert start.order.command.argv == words
    assert start.order.environ["PWD"] == os.path.realpath(tmp_path)
    assert start.order.command.stdin == b"do it"


BAD = "caf\udce9"


@pytest.mark.parametrize(
    ("option", "wished"),
    [
        ("--on-complete", {"on_complete": f"echo {BAD}"}),
        ("--on-create", {"on_create": f"echo {BAD}"}),
        ("--name", {"name": BAD}),
        ("--group", {"group": BAD}),
        ("--spec", {"spec": f"/{BAD}"}),
        ("--model", {"model": BAD}),
        ("--meta", {"meta": (("k", BAD),)}),
        ("--meta", {"meta": ((BAD, "v"),)}),
        ("--branch", {"worktree": Worktree("/r", "/w", BAD, "")}),
    ],
)
def test_what_is_noted_is_text(
    agent: Agent, tmp_path: Path, option: str, wished: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match=f"{option}: not UTF-8 text"):
        _prepared(tmp_path, **wished)


def test_what_the_agent_alone_is_given_may_be_any_bytes(agent: Agent, tmp_path: Path) -> None:
    start = _prepared(tmp_path, environ=(("K", BAD),))
    assert start.order.environ["K"] == BAD
