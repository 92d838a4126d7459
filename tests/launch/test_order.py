"""From a request to one exact start: program, arguments, environment. Nothing is started."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctl.adapters.plans import Command, LaunchRequest
from agentctl.errors import StartFailed, UsageError
from agentctl.launch import order
from agentctl.launch.order import Order, StartRequest, prepare_order
from agentctl.process.ours import LAUNCH
from agentctl.truth.model import Facts, Observation, Worktree

CALLER = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "LANG": "C"}


class Agent:
    """A fake adapter: stores each request, and returns the command of the test."""

    permission_modes = ("plan", "all")

    def __init__(self) -> None:
        self.requests: list[tuple[str | None, LaunchRequest]] = []
        self.command = Command(("sh", "-x"), "")

    def launch(self, request: LaunchRequest) -> Command:
        self.requests.append((None, request))
        return self.command._replace(cwd=request.cwd, stdin=request.prompt.encode())

    def resume(self, observation: Observation, request: LaunchRequest) -> Command:
        self.requests.append((observation.session_id, request))
        return self.command._replace(cwd=request.cwd)


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    agent = Agent()
    monkeypatch.setattr(order, "load", lambda _: agent)
    return agent


def _prepare(tmp_path: Path, caller: dict[str, str] | None = None, **more: object) -> Order:
    request = StartRequest("any", "do it", str(tmp_path))._replace(**more)  # type: ignore[arg-type]
    return prepare_order(request, CALLER if caller is None else caller)


def test_the_agent_gets_the_callers_environment(agent: Agent, tmp_path: Path) -> None:
    start = _prepare(tmp_path)
    marker = start.environ[LAUNCH]
    assert start.environ == {**CALLER, "PWD": str(tmp_path), LAUNCH: marker}
    assert dict(start.added) == {"PWD": str(tmp_path), LAUNCH: marker}
    assert start.removed == ()
    assert marker == start.id
    assert agent.requests[0][1].environ == start.environ


def test_no_two_launches_have_one_id(agent: Agent, tmp_path: Path) -> None:
    assert agent.requests == []
    assert len({_prepare(tmp_path).id for _ in range(50)}) == 50


def test_marks_of_an_outer_agent_are_removed(agent: Agent, tmp_path: Path) -> None:
    outer = {"CLAUDECODE": "1", "AGENTCTL_LAUNCH_ID": "outer", "AGENTCTL_HOOK": "outer/on-complete"}
    start = _prepare(tmp_path, {**CALLER, **outer, "ANTHROPIC_API_KEY": "k"})
    assert start.environ.get("CLAUDECODE") is None
    assert start.environ.get("AGENTCTL_HOOK") is None  # or it would end with that hook
    assert start.environ[LAUNCH] == start.id
    assert start.environ["ANTHROPIC_API_KEY"] == "k"
    assert set(start.removed) == {"CLAUDECODE", "AGENTCTL_HOOK"}
    assert agent.requests[0][1].environ.get("CLAUDECODE") is None


def test_the_users_variables_win(agent: Agent, tmp_path: Path) -> None:
    agent.command = agent.command._replace(
        set=(("SAFE", "adapter"), ("QUIET", "1")), unset=("LANG", "TERM", "ALSO")
    )
    overrides = (
        ("SAFE", "person"),
        ("LANG", "de"),
        ("CLAUDECODE", "yes"),
        ("LANG", "fr"),
        ("EMPTY", ""),
    )
    start = _prepare(tmp_path, {**CALLER, "TERM": "xterm", "CLAUDECODE": "1"}, environ=overrides)
    environ = start.environ
    assert {name: environ.get(name) for name in ("SAFE", "QUIET", "LANG", "CLAUDECODE", "EMPTY")} == {
        "SAFE": "person",
        "QUIET": "1",
        "LANG": "fr",
        "CLAUDECODE": "yes",
        "EMPTY": "",
    }
    assert "TERM" not in environ
    assert start.removed == ("TERM",)  # not what the caller never had, nor what the user set again
    assert dict(start.added)["CLAUDECODE"] == "yes"


def test_the_adapter_adds_to_the_users_variable(tmp_path: Path) -> None:
    """OpenCode takes a system prompt in the variable of the user's own settings."""
    overrides = (("OPENCODE_CONFIG_CONTENT", '{"share": "disabled"}'),)
    start = _prepare(
        tmp_path, adapter="opencode", binary="sh", environ=overrides, system_prompt="be brief"
    )
    content = json.loads(start.environ["OPENCODE_CONFIG_CONTENT"])
    assert content["share"] == "disabled"
    assert content["instructions"] != []


def test_our_own_mark_cannot_be_set(agent: Agent, tmp_path: Path) -> None:
    """`stop` finds by it what an agent leaves behind."""
    start = _prepare(tmp_path, environ=((LAUNCH, "mine"),))
    assert start.environ[LAUNCH] == start.id
    assert agent.requests[0][1].environ[LAUNCH] == start.id


def test_the_program_is_searched_on_the_agents_path(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "sh"
    program.write_text("#!/bin/true\n")
    program.chmod(0o755)
    start = _prepare(tmp_path, environ=(("PATH", f"{tmp_path}/bin"),))
    assert start.command.argv == (str(program), "-x")
    assert agent.command.argv == ("sh", "-x")
    assert _prepare(tmp_path).command.argv == ("/usr/bin/sh", "-x")


def test_another_program_may_be_chosen(agent: Agent, tmp_path: Path) -> None:
    assert agent.requests == []
    assert _prepare(tmp_path, binary="true").command.argv == ("/usr/bin/true", "-x")
    with pytest.raises(StartFailed, match="no-such-agent is not installed") as caught:
        _prepare(tmp_path, binary="no-such-agent")
    assert "/usr/bin, /bin" in caught.value.hint


def test_permission_modes_are_the_agents_own(agent: Agent, tmp_path: Path) -> None:
    _prepare(tmp_path, permission_mode="plan")
    assert agent.requests[-1][1].permission_mode == "plan"
    with pytest.raises(UsageError, match="any has no permission mode 'yolo'") as caught:
        _prepare(tmp_path, permission_mode="yolo")
    assert caught.value.hint == "it has plan, all"


def test_an_agent_may_have_no_permission_modes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="demo has no permission mode 'yolo'") as caught:
        _prepare(tmp_path, adapter="demo", permission_mode="yolo")
    assert caught.value.hint == "it has no permission modes"


def test_a_start_needs_a_directory(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (f"{tmp_path}/none", f"{tmp_path}/file", "a\0b", ""):
        with pytest.raises(UsageError, match="not a directory"):
            _prepare(tmp_path, cwd=path)
    assert agent.requests == []


def test_links_to_the_directory_are_resolved(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    start = _prepare(tmp_path, cwd=f"{tmp_path}/link")
    assert start.command.cwd == start.environ["PWD"] == f"{tmp_path}/real"
    assert agent.requests[0][1].cwd == f"{tmp_path}/real"


def test_the_whole_request_is_ordered(agent: Agent, tmp_path: Path) -> None:
    tree = Worktree("/repo", str(tmp_path), "b", "c")
    start_request = StartRequest(
        "any", "do it", str(tmp_path), "m", "n", "g", "/spec", (("k", "v"),), (), "be kind", "all",
        ("--x",), None, tree, "create", "complete", 5.0, True,
    )  # fmt: skip
    order = prepare_order(start_request, CALLER)
    [(resumed, request)] = agent.requests
    assert resumed is None
    assert request[:2] == ("do it", str(tmp_path))
    assert request[3:8] == ("m", "n", "be kind", "all", ("--x",))
    assert order.command.stdin == b"do it"
    assert order.request is start_request
    assert order.at > 0


def test_the_adapter_gets_the_session_to_resume(agent: Agent, tmp_path: Path) -> None:
    observation = Observation("any", "4f2a", (), Facts(last_activity_at=7.0))
    new_order = prepare_order(StartRequest("any", "go on", str(tmp_path)), CALLER, observation)
    assert new_order.before == 7.0  # activity that is not younger is no sign of life
    assert [(resumed, request.prompt) for resumed, request in agent.requests] == [("4f2a", "go on")]


def test_a_real_adapter(tmp_path: Path) -> None:
    start = _prepare(
        tmp_path, {**CALLER, "PWD": "/old"}, adapter="demo", model="m1", native=("--late", "1")
    )
    words = (sys.executable, "-P", "-m", "agentctl.demo.agent", "--model", "m1", "--late", "1", "-")
    assert start.command.argv == words
    assert start.environ["PWD"] == os.path.realpath(tmp_path)
    assert start.command.stdin == b"do it"


BAD = "caf\udce9"


@pytest.mark.parametrize(
    ("option", "values"),
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
def test_noted_values_must_be_text(
    agent: Agent, tmp_path: Path, option: str, values: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match=f"{option}: not UTF-8 text"):
        _prepare(tmp_path, **values)


def test_the_agents_variables_may_be_any_bytes(agent: Agent, tmp_path: Path) -> None:
    start = _prepare(tmp_path, environ=(("K", BAD),))
    assert start.environ["K"] == BAD
