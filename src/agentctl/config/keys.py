"""Every setting there is. The reference page and the file that `config init` writes are made of these
tables."""

from __future__ import annotations

from collections.abc import Mapping

from agentctl.config.values import Key
from agentctl.durations import seconds

# The names are not those of the facts that a hook finds in its environment (AGENTCTL_ADAPTER,
# AGENTCTL_CWD …): what a hook launches must not take its launcher's facts for a person's wishes.
KEYS: Mapping[str, Key] = {
    "defaults.adapter": Key(
        "text", "AGENTCTL_DEFAULT_ADAPTER", "the agent to launch where none is named", '"claude-code"'
    ),
    "defaults.model": Key(
        "text",
        "AGENTCTL_DEFAULT_MODEL",
        "its model; for the default adapter only, if there is one",
        '"opus"',
    ),
    "defaults.permission_mode": Key(
        "text",
        "AGENTCTL_DEFAULT_PERMISSION_MODE",
        "what it may do unasked; for the default adapter only, if there is one",
        '"acceptEdits"',
    ),
    "defaults.cwd": Key(
        "path",
        "AGENTCTL_DEFAULT_CWD",
        "where to launch, instead of the current directory",
        '"~/project"',
    ),
    "defaults.name": Key("text", "AGENTCTL_DEFAULT_NAME", "a name for each launch", '"nightly"'),
    "defaults.group": Key("text", "AGENTCTL_DEFAULT_GROUP", "the group each launch joins", '"nightly"'),
    "defaults.timeout": Key(
        "length", "AGENTCTL_DEFAULT_TIMEOUT", "how long a launched agent may take", '"3h"'
    ),
    "defaults.on_create": Key(
        "text",
        "AGENTCTL_DEFAULT_ON_CREATE",
        "a command to run when an agent was launched",
        '"notify-send started"',
    ),
    "defaults.on_complete": Key(
        "text", "AGENTCTL_DEFAULT_ON_COMPLETE", "a command to run when it has ended", '"make test"'
    ),
    "launches.ttl": Key(
        "length",
        "AGENTCTL_LAUNCH_TTL",
        "how long what is known of a launch is kept after its agent's end",
        '"7d"',
        seconds("7d"),
    ),
    "launches.settle": Key(
        "length",
        "AGENTCTL_SETTLE",
        "how long launch stays to see a start that cannot work (no login, no such model), at most",
        '"5s"',
        seconds("5s"),
    ),
    "worktrees.directory": Key(
        "path",
        "AGENTCTL_WORKTREE_DIRECTORY",
        "where git worktrees for launches are made, instead of beside their repository",
        '"~/worktrees"',
    ),
    "fuses.on_launch": Key(
        "text",
        "AGENTCTL_FUSES_ON_LAUNCH",
        "what a launch does to the fuses that burn in its directory: cancel, or keep",
        '"cancel"',
        "cancel",
        choices=("cancel", "keep"),
    ),
    "daemon.auto": Key(
        "flag",
        "",
        "a verb that needs the daemon starts it; AGENTCTL_NO_DAEMON=1 says no for one call",
        "true",
        True,
    ),
    "journal.keep": Key(
        "length", "AGENTCTL_JOURNAL_KEEP", "how long events are kept", '"7d"', seconds("7d")
    ),
    "journal.max_size": Key(
        "size",
        "AGENTCTL_JOURNAL_MAX_SIZE",
        "how large their journal may become; the oldest events go first",
        '"256M"',
        256 << 20,
    ),
    "metrics.address": Key(
        "text",
        "AGENTCTL_METRICS_ADDRESS",
        "where the daemon shows its metrics; another than a loopback address shows them to others",
        '"127.0.0.1"',
        "127.0.0.1",
    ),
    "metrics.port": Key(
        "number",
        "AGENTCTL_METRICS_PORT",
        "the port of that; 0: any free one",
        "9200",
        9200,
        between=(0, 65535),
    ),
    "metrics.users": Key(
        "words",
        "AGENTCTL_METRICS_USERS",
        "who on this machine may read them besides you and root, by name or uid; * is everybody",
        '["prometheus"]',
        (),
    ),
    "metrics.off": Key("flag", "AGENTCTL_METRICS_OFF", "no metrics over HTTP", "false", False),
}
# Below [adapters.NAME]; NAME in a variable is upper case, with _ for what is no letter or digit.
ADAPTER_KEYS: Mapping[str, Key] = {
    "binary": Key(
        "program", "AGENTCTL_ADAPTER_{}_BINARY", "its program, by name or path", '"~/bin/claude"'
    ),
    "model": Key("text", "AGENTCTL_ADAPTER_{}_MODEL", "its model", '"opus"'),
    "permission_mode": Key(
        "text", "AGENTCTL_ADAPTER_{}_PERMISSION_MODE", "what it may do unasked", '"acceptEdits"'
    ),
    "args": Key(
        "words", "AGENTCTL_ADAPTER_{}_ARGS", "more words for its command line", '["--verbose"]', ()
    ),
}

WAITING, STOPPED, FIRED = "session.waiting", "session.stopped", "fuse.fired"
# Below [webhooks.NAME], NAME being any word. The variables make one more, called "environment".
WEBHOOK_KEYS: Mapping[str, Key] = {
    "url": Key("url", "AGENTCTL_WEBHOOK_URL", "where to send it", '"https://example.org/agents"'),
    "secret": Key(
        "text",
        "AGENTCTL_WEBHOOK_SECRET",
        "what deliveries are signed with; none: they are not signed",
        '"what only you and the receiver know"',
        secret=True,
    ),
    "events": Key(
        "events",
        "",
        "which events; * stands for anything",
        f'["{WAITING}", "{STOPPED}", "{FIRED}"]',
        (WAITING, STOPPED, FIRED),
    ),
    "adapters": Key("words", "", "only of these agents", '["claude-code", "codex"]', ()),
    "groups": Key("words", "", "only of launches in these groups", '["nightly"]', ()),
}
ON = ("waiting", "finished", "failed")
# Below [notify.NAME]: one of the first three, and the rest as wanted.
NOTIFY_KEYS: Mapping[str, Key] = {
    "desktop": Key("flag", "", "a notification on this desktop", "true", False),
    "url": Key("url", "", "a POST with the text as its body, as ntfy takes it", '"https://ntfy.sh/me"'),
    "command": Key("text", "", "a command to run, told by its environment", '"say agents"'),
    "on": Key(
        "words",
        "",
        "when: it waits for you, it finished, it failed",
        '["waiting", "finished", "failed"]',
        ON,
        choices=ON,
    ),
    "adapters": Key("words", "", "only of these agents", '["claude-code"]', ()),
    "groups": Key("words", "", "only of launches in these groups", '["nightly"]', ()),
    "title": Key("text", "", "url: its title, instead of ours", '"agents"'),
    "priority": Key(
        "text",
        "",
        "url: how loud",
        '"high"',
        choices=("min", "low", "default", "high", "max"),
    ),
    "token": Key("text", "", "url: an access token", '"tk_…"', secret=True),
}
# What stands together in one target of the file that `config init` writes.
NOTIFY_EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "desktop": ("desktop", "on", "adapters", "groups"),
    "phone": ("url", "title", "priority", "token"),
    "script": ("command",),
}
