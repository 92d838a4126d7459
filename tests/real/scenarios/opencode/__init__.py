"""OpenCode."""

from __future__ import annotations

from functools import partial

from tests.real.scenarios import SIGNALS, Play, common, crowd
from tests.real.scenarios.opencode import dialogs, processes, sessions

KILLED = dict.fromkeys(SIGNALS, "killed")  # `run` dies of each, and writes nothing

PLAYS: dict[str, Play] = {
    "start": common.start,
    "first answer": common.first_answer,
    "long stream": common.long_stream,
    "silent thinking": common.silent_thinking,
    "tool running": dialogs.tools_running,
    "permission asked": dialogs.permission_asked,
    "permission granted": dialogs.permission_granted,
    "permission denied": dialogs.permission_denied,
    "question asked": dialogs.question_asked,
    "idle": common.idle,
    "Esc interrupt": dialogs.interrupted,
    "API error": common.api_error,
    "retry with back-off": common.retry,
    "model server gone": partial(common.model_server_gone, retrying="retrying in"),
    **common.by_each_signal("while streaming", common.killed_while_streaming, KILLED),
    **common.by_each_signal(
        "while a tool runs", partial(common.killed_while_a_tool_runs, orphans=SIGNALS), KILLED
    ),
    "resume headless": sessions.resume_headless,
    "resume in the TUI": sessions.resume_in_the_tui,
    "fork": sessions.fork,
    "new session in place": sessions.new_in_place,
    "sub-agent after the main turn": sessions.sub_agent,
    "background shell": common.detached_shell,
    "two sessions in one directory": sessions.two_in_one_directory,
    "three sessions in one directory": common.three_in_one_directory,
    "parallel starts": sessions.parallel_starts,
    "resumed from another directory": sessions.resumed_elsewhere,
    "started from another agent's shell": lambda lab: crowd.one_in_another(lab, "opencode"),
    "daemon's client quits, work goes on": processes.client_quits,
    "200 KB prompt": crowd.long_prompt,
    "stale records, pid now another agent's": crowd.pid_reused,
    "terminal closed": partial(common.terminal_closed, outcome="interrupted"),
    "binary upgraded under a live process": lambda lab: crowd.upgraded(lab, lab.program, "opencode"),
    "state directory deleted": common.state_directory_deleted,
    "agentctl daemon killed": common.daemon_killed,
}
CANNOT: dict[str, str] = {
    "wrapper killed, agent alive": "its npm package puts the program itself in the place of a wrapper",
    "native background session killed and respawned": "nothing starts its server, or a session, again",
}
