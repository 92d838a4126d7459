"""`agentctl why`."""

from agentctl.cli.answer import Screen
from agentctl.cli.verbs import why
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Observation, Session
from tests.cli import hostile
from tests.fakes.demo import DemoStage
from tests.running import agentctl_in, agentctl_of, environ_of


def test_the_evidence_with_its_addresses(stage: DemoStage) -> None:
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


def test_killed_is_the_kernel_s_word(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.kill()
    ran = agentctl_of(stage, "why", puppet.session_id or "")
    assert ran.lines[0].endswith("  demo  killed")
    assert "  kernel   gone " in ran.out
    assert "exit code" in ran.lines[-1]


def test_what_was_overruled_and_what_is_not_trusted() -> None:
    alive = Evidence("alive", "proc:1@1", "kernel")
    working = Evidence("working", "/record", "record", detail="")
    idle = Evidence("idle", "/journal@7", "journal")
    odd = Evidence("waiting", "/odd", "record", trusted=False, note="a word we do not know")
    pieces = (alive, working, idle, odd)
    screen = Screen(80, colour=False, home=None, now=0.0)
    shown = why.lines(Session(Observation("demo", "s", pieces), judge(pieces)), screen)
    text = "\n".join(shown)
    assert text.index("decided by") < text.index("/record") < text.index("overruled")
    assert text.index("overruled") < text.index("/journal@7")
    assert "/odd  not trusted" in text


def test_hostile_evidence_is_harmless(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    hostile.poison(stage, puppet)
    ran = agentctl_of(stage, "why", puppet.session_id or "")
    assert hostile.harmful(ran.out) == []
    assert "\\x1b[31mred" in ran.out
    assert len(ran.lines) == 11


def test_json_carries_it_intact(stage: DemoStage) -> None:
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
