"""Claude Code."""

from __future__ import annotations

from tests.real.scenarios import Play, common

PLAYS: dict[str, Play] = {
    "start": common.start,
    "first answer": common.first_answer,
    "long stream": common.long_stream,
    "silent thinking": common.silent_thinking,
    "tool running": common.tool_running,
    "idle": common.idle,
    "API error": common.api_error,
    "retry with back-off": common.retry,
    **common.by_each_signal(
        "while streaming",
        common.killed_while_streaming,
        {"SIGINT": "interrupted", "SIGTERM": "killed", "SIGHUP": "killed", "SIGKILL": "killed"},
    ),
}
CANNOT: dict[str, str] = {}
