"""Codex: what it does alike, and the table of all its plays. Its own ways are in the modules beside."""

from __future__ import annotations

from functools import partial

from tests.real.scenarios import Play, common, crowd
from tests.real.scenarios.codex import asking, processes, threads
from tests.real.scenarios.codex.processes import native_program

FOR_EVER = ("--enable", "unbounded_connection_retries")  # as people have it; our settings do not
ENDINGS = {"SIGINT": "interrupted", "SIGTERM": "killed", "SIGHUP": "killed", "SIGKILL": "killed"}

PLAYS: dict[str, Play] = {
    "start": common.start,
    "first answer": common.first_answer,
    "long stream": common.long_stream,
    "silent thinking": common.silent_thinking,
    "tool running": common.tool_running,
    "permission asked": asking.permission_asked,
    "permission granted": asking.permission_granted,
    "permission denied": asking.permission_denied,
    "question asked": asking.question_asked,
    "idle": common.idle,
    "Esc interrupt": common.esc_interrupt,
    "API error": common.api_error,
    "retry with back-off": common.retry,
    "model server gone": partial(common.model_server_gone, retrying="Reconnecting", words=FOR_EVER),
    **common.by_each_signal("while streaming", common.killed_while_streaming, ENDINGS),
    # Interrupted, it ends all of its command; of the others it dies at once, and with it only its own
    # child, the shell.
    **common.by_each_signal(
        "while a tool runs",
        partial(common.killed_while_a_tool_runs, orphans=("SIGTERM", "SIGHUP", "SIGKILL"), shell=True),
        ENDINGS,
    ),
    "resume headless": threads.resume_headless,
    "resume in the TUI": threads.resume_in_the_tui,
    "fork": threads.fork,
    "new session in place": threads.new_in_place,
    "sub-agent after the main turn": threads.sub_agent,
    "background shell": threads.background_shell,
    "two sessions in one directory": common.two_in_one_directory,
    "three sessions in one directory": common.three_in_one_directory,
    "parallel starts": common.parallel_starts,
    "resumed from another directory": threads.resumed_elsewhere,
    "started from another agent's shell": lambda lab: crowd.one_in_another(lab, "codex"),
    "wrapper killed, agent alive": processes.wrapper_killed,
    "daemon's client quits, work goes on": processes.client_quits,
    "native background session killed and respawned": processes.daemon_killed,
    "200 KB prompt": lambda lab: crowd.long_prompt(lab, "-"),
    "stale records, pid now another agent's": lambda lab: crowd.pid_reused(lab, native_program(lab)),
    "terminal closed": common.terminal_closed,
    "binary upgraded under a live process": lambda lab: crowd.upgraded(
        lab, native_program(lab), "codex"
    ),
    "state directory deleted": common.state_directory_deleted,
    "agentctl daemon killed": common.daemon_killed,
}
CANNOT: dict[str, str] = {}
