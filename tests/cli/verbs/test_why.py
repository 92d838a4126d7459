"""`agentctl why`."""

from tests.cli import hostile
from tests.fakes.demo import DemoStage
from tests.running import agentctl_in, agentctl_of, environ_of


def test_evidence_is_shown_with_its_addresses(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("ask")
    ran = agentctl_of(stage, "why", puppet.session_id or "")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0] == f"{puppet.session_id}  demo  waiting"
    assert ran.lines[1] == "its process is alive and waits for a person: question"
    assert ran.lines[3] == "decided by"
    assert puppet.identity.address in ran.out
    assert f"~/.demo-agent/sessions/{puppet.session_id}.jsonl@" in ran.out
    assert "shall I go on?" in ran.out
    assert ran.lines[-2:] == ["not known", "  tokens, cost"]


def test_a_kill_is_shown_as_evidence_of_the_kernel(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.kill()
    ran = agentctl_of(stage, "why", puppet.session_id or "")
    assert ran.lines[0].endswith("  demo  killed")
    assert "  kernel   gone " in ran.out
    assert "exit code" in ran.lines[-1]


def test_hostile_evidence_is_harmless(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    hostile.poison(stage, puppet)
    ran = agentctl_of(stage, "why", puppet.session_id or "")
    assert hostile.harmful(ran.out) == []
    assert "\\x1b[31mred" in ran.out
    assert len(ran.lines) == 11


def test_json_carries_hostile_evidence_intact(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    hostile.poison(stage, puppet)
    (session,) = agentctl_of(stage, "why", puppet.session_id or "", "--json").json()["sessions"]
    assert hostile.ALL in [piece["note"] for piece in session["evidence"]]
    assert [piece["decided"] for piece in session["evidence"]] == [True, True]


def test_without_a_home_no_path_is_shortened(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    environ = {**environ_of(stage), "HOME": "/", "DEMO_AGENT_HOME": str(stage.home / ".demo-agent")}
    ran = agentctl_in(environ, "why", puppet.session_id or "")
    assert f"  {stage.home}/.demo-agent/sessions/" in ran.out
    assert f"bound by pid record: {stage.home}/.demo-agent/live/{puppet.pid}.json" in ran.out
