"""The shape of `doctor --live --json`."""

from agentctl.wire import doctor


def test_an_agent_has_the_documented_fields() -> None:
    found = doctor.agent("codex", "not checked", "no room", binary="/bin/codex")
    assert list(found) == [name for name, _, _ in doctor.AGENT_FIELDS]
    assert (found["binary"], found["agent_version"], found["steps"]) == ("/bin/codex", None, [])


def test_what_is_not_as_expected_is_counted() -> None:
    states = ("as expected", "drifted", "failed", "not checked")
    told = doctor.envelope([doctor.agent("x", state) for state in states])
    assert (told["version"], told["drifted"], len(told["agents"])) == (1, 2, 4)
