"""`agentctl doctor`: 0 on a clean machine, 1 when something is wrong, and nothing is ever changed."""

from tests.cli import hostile
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of


def test_a_clean_home(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "doctor")
    assert (ran.code, ran.err) == (0, ""), ran
    assert ran.lines[-1] == "nothing is wrong"
    for subject in ("agentctl", "kernel", "state", "claude-code", "codex", "opencode", "pi", "demo"):
        assert subject in ran.lines


def test_live_agents_are_counted(stage: DemoStage) -> None:
    stage.start()
    stage.start()
    assert "  ok    2 live, versions 1.0.0" in agentctl_of(stage, "doctor").lines


def test_a_corrupt_record_is_wrong(stage: DemoStage) -> None:
    puppet = stage.start()
    live = stage.records(puppet)[0]
    live.write_text("rubbish")
    ran = agentctl_of(stage, "doctor")
    assert ran.code == 1
    assert f"  wrong malformed: not a record of a live process ({live})" in ran.lines
    assert ran.lines[-1] == "1 wrong"
    assert live.read_text() == "rubbish"


def test_a_stale_record_is_told_and_kept(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.kill()
    live = stage.records(puppet)[0]
    before = live.read_bytes()
    ran = agentctl_of(stage, "doctor")
    assert ran.code == 0  # harmless by itself
    assert f"stale: names a process that is gone; session {puppet.session_id}" in ran.out
    assert live.read_bytes() == before


def test_settings_that_make_no_sense_are_wrong(stage: DemoStage) -> None:
    assert "  ok    none made: all is as built in" in agentctl_of(stage, "doctor").lines
    file = stage.root / "state" / "config.toml"
    file.parent.mkdir(mode=0o700)
    file.write_text("[defaults]\n")
    assert f"  ok    {file}" in agentctl_of(stage, "doctor").lines
    file.write_text("[defaults]\nmodle = 1\n")
    ran = agentctl_of(stage, "doctor")
    assert ran.code == 1
    told = f"{file}:2: no setting 'defaults.modle' (did you mean defaults.model?)"
    assert f"  wrong {told}" in ran.lines


def test_json(stage: DemoStage) -> None:
    puppet = stage.start()
    stage.records(puppet)[0].write_text(f"rubbish {hostile.WIDE}")
    ran = agentctl_of(stage, "doctor", "--json")
    assert ran.code == 1
    shape = ran.json()
    assert list(shape) == ["version", "wrong", "findings"]
    assert shape["wrong"] == 1 == sum(f["level"] == "wrong" for f in shape["findings"])
    assert {tuple(finding) for finding in shape["findings"]} == {("subject", "level", "text")}


def test_hostile_names_are_harmless(stage: DemoStage) -> None:
    sessions = stage.home / ".demo-agent" / "sessions"
    sessions.mkdir(parents=True)
    (sessions / "\x1b[31m\n\u202e漢.jsonl").write_text("rubbish\n")
    ran = agentctl_of(stage, "doctor")
    assert ran.code == 1
    assert hostile.harmful(ran.out) == []


def test_it_changes_nothing(stage: DemoStage) -> None:
    stage.start().kill()
    files = sorted(p for p in stage.home.rglob("*") if p.is_file())
    before = [(path, path.stat().st_mtime_ns, path.read_bytes()) for path in files]
    agentctl_of(stage, "doctor")
    after = sorted(p for p in stage.home.rglob("*") if p.is_file())
    assert [(path, path.stat().st_mtime_ns, path.read_bytes()) for path in after] == before
