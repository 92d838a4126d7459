"""Claude Code."""

from __future__ import annotations

from functools import partial

from tests.real.scenarios import Play, common, crowd
from tests.real.scenarios.claude_code import background, dialogs, processes, sessions

ENDS = {"SIGINT": "interrupted", "SIGTERM": "killed", "SIGHUP": "killed", "SIGKILL": "killed"}

PLAYS: dict[str, Play] = {
    "start": common.start,
    "first answer": common.first_answer,
    "long stream": common.long_stream,
    "silent thinking": common.silent_thinking,
    "tool running": common.tool_running,
    "permission asked": dialogs.permission_asked,
    "permission granted": dialogs.permission_granted,
    "permission denied": dialogs.permission_denied,
    "question asked": dialogs.question_asked,
    "idle": dialogs.idle,
    "Esc interrupt": common.esc_interrupt,
    "API error": common.api_error,
    "retry with back-off": common.retry,
    "model server gone": partial(common.model_server_gone, retrying="Retrying"),
    **common.by_each_signal("while streaming", common.killed_while_streaming, ENDS),
    **common.by_each_signal(
        "while a tool runs", partial(common.killed_while_a_tool_runs, orphans=("SIGKILL",)), ENDS
    ),
    "resume headless": sessions.resume_headless,
    "resume in the TUI": sessions.resume_in_the_tui,
    "fork": sessions.fork,
    "new session in place": sessions.new_session_in_place,
    "sub-agent after the main turn": sessions.sub_agent_after_the_main_turn,
    "background shell": sessions.background_shell,
    "two sessions in one directory": common.two_in_one_directory,
    "three sessions in one directory": common.three_in_one_directory,
    "parallel starts": common.parallel_starts,
    "resumed from another directory": sessions.resumed_from_another_directory,
    "started from another agent's shell": processes.from_another_ones_shell,
    "wrapper killed, agent alive": processes.wrapper_killed,
    "daemon's client quits, work goes on": background.client_quits,
    "native background session killed and respawned": background.killed_and_respawned,
    "200 KB prompt": crowd.long_prompt,
    "stale records, pid now another agent's": crowd.pid_reused,
    "terminal closed": common.terminal_closed,
    "binary upgraded under a live process": lambda lab: crowd.upgraded(lab, lab.program, "claude"),
    "state directory deleted": common.state_directory_deleted,
    "agentctl daemon killed": common.daemon_killed,
}
CANNOT: dict[str, str] = {}
