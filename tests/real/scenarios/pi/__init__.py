"""Pi: all that is played with it, and what it has not."""

from __future__ import annotations

from functools import partial

from tests.real.scenarios import Play, common, crowd
from tests.real.scenarios.pi import processes, sessions, terminal

# It writes nothing down when a signal ends it.
ENDS = {"SIGINT": "killed", "SIGTERM": "killed", "SIGHUP": "killed", "SIGKILL": "killed"}
ORPHANS = ("SIGINT", "SIGKILL")

PLAYS: dict[str, Play] = {
    "start": terminal.start,
    "first answer": common.first_answer,
    "long stream": common.long_stream,
    "silent thinking": common.silent_thinking,
    "tool running": common.tool_running,
    "question asked": terminal.question_asked,
    "idle": terminal.idle,
    "Esc interrupt": terminal.interrupted,
    "API error": terminal.api_error,
    "retry with back-off": terminal.retry,
    "model server gone": partial(common.model_server_gone, retrying="Retrying", blind=terminal.TRYING),
    **common.by_each_signal("while streaming", common.killed_while_streaming, ENDS),
    **common.by_each_signal(
        "while a tool runs", partial(common.killed_while_a_tool_runs, orphans=ORPHANS), ENDS
    ),
    "resume headless": sessions.resume_headless,
    "resume in the TUI": sessions.resume_in_the_tui,
    "fork": sessions.fork,
    "new session in place": sessions.new_in_place,
    "background shell": common.detached_shell,
    "two sessions in one directory": common.two_in_one_directory,
    "three sessions in one directory": common.three_in_one_directory,
    "parallel starts": sessions.parallel_starts,
    "resumed from another directory": sessions.resumed_elsewhere,
    "started from another agent's shell": processes.pi_in_a_pi,
    "200 KB prompt": crowd.long_prompt,
    "stale records, pid now another agent's": crowd.pid_reused,
    "terminal closed": common.terminal_closed,
    "binary upgraded under a live process": processes.upgraded,
    "state directory deleted": common.state_directory_deleted,
    "agentctl daemon killed": common.daemon_killed,
}
NEVER_ASKS = "Pi asks for no permission"
CANNOT: dict[str, str] = {
    "permission asked": NEVER_ASKS,
    "permission granted": NEVER_ASKS,
    "permission denied": NEVER_ASKS,
    "sub-agent after the main turn": "Pi has no sub-agents; its extensions start further Pis",
    "wrapper killed, agent alive": "Pi is the node that was started: there is no wrapper",
    "daemon's client quits, work goes on": "Pi has no daemon",
    "native background session killed and respawned": "Pi has no background sessions",
}
