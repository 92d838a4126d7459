"""`agentctl status`."""

from agentctl import paths
from agentctl.state import launch_writes
from agentctl.truth.model import Launch
from tests.cli import hostile
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of


def _facts(out: str) -> dict[str, str]:
    return {line[:14].strip(): line[14:] for line in out.splitlines()}


def test_all_facts_of_one_session(stage: DemoStage) -> None:
    puppet = stage.start(prompt="paint the shed")
    puppet.do("work 0.1")
    puppet.do("ask")
    ran = agentctl_of(stage, "status", (puppet.session_id or "")[:8])
    assert (ran.code, ran.err) == (0, "")
    facts = _facts(ran.out)
    assert facts["id"] == puppet.session_id
    assert facts["status"].startswith("waiting for question · ")
    assert facts["because"] == "its process is alive and waits for a person: question"
    assert facts["agent"] == "demo 1.0.0"
    assert facts["process"] == str(puppet.pid)
    assert facts["directory"] == str(stage.work)
    assert facts["prompt"] == "paint the shed"
    assert facts["tokens"] == "input 100, output 10"
    assert facts["transcript"] == f"~/.demo-agent/sessions/{puppet.session_id}.jsonl"
    assert "exit code" not in facts  # none is known


def test_an_ended_session_has_an_outcome_and_no_process(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.kill()
    facts = _facts(agentctl_of(stage, "status", puppet.session_id or "").out)
    assert facts["status"].startswith("stopped killed")
    assert "process" not in facts


def test_a_process_without_a_session(stage: DemoStage) -> None:
    puppet = stage.start()
    stage.records(puppet)[0].unlink()
    facts = _facts(agentctl_of(stage, "status", f"pid:{puppet.pid}").out)
    assert facts["id"] == "none yet"
    assert facts["status"].startswith("running (activity unknown)")


def test_labels_are_shown(stage: DemoStage) -> None:
    puppet = stage.start()
    note = Launch(
        "1", puppet.identity, puppet.session_id, "my name", "my group", "my spec", (("ticket", "42"),)
    )
    launch_writes.begin_launch(paths.database_file(stage.environ["AGENTCTL_HOME"]), note)
    facts = _facts(agentctl_of(stage, "status", puppet.session_id or "").out)
    assert (facts["name"], facts["group"], facts["spec"]) == ("my name", "my group", "my spec")
    assert facts["meta ticket"] == "42"


def test_hostile_facts_are_one_harmless_line_each(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    plain = len(agentctl_of(stage, "status", puppet.session_id or "").lines)
    hostile.poison(stage, puppet)
    ran = agentctl_of(stage, "status", puppet.session_id or "")
    assert hostile.harmful(ran.out) == []
    assert len(ran.lines) == plain


def test_json_is_what_list_says(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("ask")
    assert (
        agentctl_of(stage, "status", puppet.session_id or "", "--json").lasting()
        == agentctl_of(stage, "list", "--json").lasting()
    )
