"""The shape of `doctor --live --json`."""

from agentctl.wire import doctor


def test_an_agent_that_was_not_rehearsed_has_no_steps() -> None:
    row = doctor.dump_agent("codex", "not checked", "no sandbox", binary="/bin/codex")
    assert (row["binary"], row["agent_version"], row["steps"]) == ("/bin/codex", None, [])


def test_unexpected_results_are_counted() -> None:
    states = ("as expected", "drifted", "failed", "not checked")
    row = doctor.dump_agents([doctor.dump_agent("x", state) for state in states])
    assert (row["version"], row["drifted"], len(row["agents"])) == (1, 2, 4)
