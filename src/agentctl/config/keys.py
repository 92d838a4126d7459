"""Every setting, listed once.

To add a setting, add one `Key` to its section here (a setting of `[notify.NAME]` also goes into
`NOTIFY_EXAMPLES`). The file that `config init` writes, the reference page, `agentctl config` and the
typed access in `config/settings.py` follow from these classes. A new section also goes into `SECTIONS`
and into `settings.Config`.
"""

from __future__ import annotations

from agentctl.durations import parse_duration
from agentctl.light_typing import Any, Generic, Literal, Mapping, NamedTuple, TypeVar, overload

Kind = Literal["text", "program", "path", "length", "words", "number", "flag", "url", "events", "size"]
Source = Literal["flag", "environment", "file", "default"]
T = TypeVar("T")


class Setting(NamedTuple, Generic[T]):
    """A value, and where it comes from."""

    value: T
    source: Source = "default"
    where: str = ""  # the variable, or the file and line

    def override(self, flag: T | None) -> Setting[T]:
        """Return the value of the command line's flag, if there is one; else this setting."""
        return self if flag is None else Setting(flag, "flag")


class Key(Generic[T]):
    """One setting that a user can make. T is the type of its value."""

    def __init__(
        self,
        kind: Kind,
        variable: str,  # empty: there is none
        meaning: str,
        example: str,  # as the file has it
        default: Any = None,
        *,
        choices: tuple[str, ...] = (),  # of a text, or of each word in a list; none: any text
        between: tuple[int, int] = (0, 2**31),  # of a number
        secret: bool = False,  # never shown
    ) -> None:
        self.kind: Kind = kind
        self.variable = variable
        self.meaning = meaning
        self.example = example
        self.default = default
        self.choices = choices
        self.between = between
        self.secret = secret

    @overload
    def __get__(self, section: None, owner: type) -> Key[T]: ...
    @overload
    def __get__(self, section: Section, owner: type) -> Setting[T]: ...
    def __get__(self, section: Section | None, owner: type) -> Key[T] | Setting[T]:
        # Tells the type checker what an instance has. At run time this is called for the class alone:
        # an instance has a setting of the same name, which Python finds first.
        return self

    def with_choices(self, choices: tuple[str, ...]) -> Key[T]:
        from copy import copy

        key = copy(self)
        key.choices = choices
        return key


class Section:
    """A class lists the keys of a section. An instance has, under the same names, their settings."""

    def __init__(self, settings: Mapping[str, Setting[Any]]) -> None:
        self.__dict__.update(settings)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def keys_of(section: type[Section]) -> dict[str, Key[Any]]:
    """Return the keys of a section by name, in the order of their definition."""
    return {name: key for name, key in vars(section).items() if isinstance(key, Key)}


# A hook finds facts about its session in AGENTCTL_ADAPTER, AGENTCTL_CWD and others. No setting has one
# of these variables: an agentctl that a hook runs would take the facts for settings.
class Defaults(Section):
    adapter = Key[str | None](
        "text", "AGENTCTL_DEFAULT_ADAPTER", "the agent to launch if none is given", '"claude-code"'
    )
    model = Key[str | None](
        "text",
        "AGENTCTL_DEFAULT_MODEL",
        "its model; for the default adapter only, if there is one",
        '"opus"',
    )
    permission_mode = Key[str | None](
        "text",
        "AGENTCTL_DEFAULT_PERMISSION_MODE",
        "what it may do without asking; for the default adapter only, if there is one",
        '"acceptEdits"',
    )
    cwd = Key[str | None](
        "path",
        "AGENTCTL_DEFAULT_CWD",
        "where to launch, instead of the current directory",
        '"~/project"',
    )
    name = Key[str | None]("text", "AGENTCTL_DEFAULT_NAME", "a name for each launch", '"nightly"')
    group = Key[str | None]("text", "AGENTCTL_DEFAULT_GROUP", "the group each launch joins", '"nightly"')
    timeout = Key[float | None](
        "length", "AGENTCTL_DEFAULT_TIMEOUT", "how long a launched agent may take", '"3h"'
    )
    on_create = Key[str | None](
        "text",
        "AGENTCTL_DEFAULT_ON_CREATE",
        "a command to run when an agent starts",
        '"notify-send started"',
    )
    on_complete = Key[str | None](
        "text", "AGENTCTL_DEFAULT_ON_COMPLETE", "a command to run when it has ended", '"make test"'
    )


class Launches(Section):
    ttl = Key[float](
        "length",
        "AGENTCTL_LAUNCH_TTL",
        "how long a launch note is kept after its agent has ended",
        '"7d"',
        parse_duration("7d"),
    )
    settle = Key[float](
        "length",
        "AGENTCTL_SETTLE",
        "how long launch waits, at most, to see a start fail (no login, no such model)",
        '"5s"',
        parse_duration("5s"),
    )


class Worktrees(Section):
    directory = Key[str | None](
        "path",
        "AGENTCTL_WORKTREE_DIRECTORY",
        "where git worktrees for launches are created, instead of beside their repository",
        '"~/worktrees"',
    )


class Fuses(Section):
    on_launch = Key[str](
        "text",
        "AGENTCTL_FUSES_ON_LAUNCH",
        "what a launch does to the fuses on its directory: cancel or keep",
        '"cancel"',
        "cancel",
        choices=("cancel", "keep"),
    )


class Daemon(Section):
    auto = Key[bool](
        "flag",
        "",
        "start the daemon when a command needs it; AGENTCTL_NO_DAEMON=1 prevents it for one call",
        "true",
        True,
    )


class Journal(Section):
    keep = Key[float](
        "length", "AGENTCTL_JOURNAL_KEEP", "how long events are kept", '"7d"', parse_duration("7d")
    )
    max_size = Key[int](  # bytes
        "size",
        "AGENTCTL_JOURNAL_MAX_SIZE",
        "how large the journal of events may become; the oldest events are deleted first",
        '"256M"',
        256 << 20,
    )


class Metrics(Section):
    address = Key[str](
        "text",
        "AGENTCTL_METRICS_ADDRESS",
        "where the daemon serves its metrics; an address that is not loopback shows them to others",
        '"127.0.0.1"',
        "127.0.0.1",
    )
    port = Key[int](
        "number",
        "AGENTCTL_METRICS_PORT",
        "the port of the metrics; 0: any free port",
        "9200",
        9200,
        between=(0, 65535),
    )
    users = Key[tuple[str, ...]](
        "words",
        "AGENTCTL_METRICS_USERS",
        "who on this machine may read them besides you and root, by name or uid; * means everyone",
        '["prometheus"]',
        (),
    )
    off = Key[bool]("flag", "AGENTCTL_METRICS_OFF", "no metrics over HTTP", "false", False)


class Agent(Section):
    """`[adapters.NAME]`. In a variable, NAME is upper case, with _ for what is no letter or digit."""

    binary = Key[str | None](
        "program", "AGENTCTL_ADAPTER_{}_BINARY", "its program, by name or path", '"~/bin/claude"'
    )
    model = Key[str | None]("text", "AGENTCTL_ADAPTER_{}_MODEL", "its model", '"opus"')
    permission_mode = Key[str | None](
        "text", "AGENTCTL_ADAPTER_{}_PERMISSION_MODE", "what it may do without asking", '"acceptEdits"'
    )
    args = Key[tuple[str, ...]](
        "words", "AGENTCTL_ADAPTER_{}_ARGS", "more arguments for its command line", '["--verbose"]', ()
    )


class Target(Section):
    """A receiver of events. The user chooses its name."""

    def __init__(self, name: str, settings: Mapping[str, Setting[Any]]) -> None:
        super().__init__(settings)
        self.name = name


ENVIRONMENT = "environment"  # the name of the webhook that the variables make
WAITING, STOPPED, FIRED = "session.waiting", "session.stopped", "fuse.fired"


class Webhook(Target):
    """`[webhooks.NAME]`. The variables make one more, named ENVIRONMENT."""

    url = Key[str]("url", "AGENTCTL_WEBHOOK_URL", "where to send it", '"https://example.org/agents"')
    secret = Key[str | None](
        "text",
        "AGENTCTL_WEBHOOK_SECRET",
        "the key that signs deliveries; none: they are not signed",
        '"what only you and the receiver know"',
        secret=True,
    )
    events = Key[tuple[str, ...]](  # patterns
        "events",
        "",
        "which events; * matches anything",
        f'["{WAITING}", "{STOPPED}", "{FIRED}"]',
        (WAITING, STOPPED, FIRED),
    )
    adapters = Key[tuple[str, ...]]("words", "", "only these agents", '["claude-code", "codex"]', ())
    groups = Key[tuple[str, ...]]("words", "", "only launches in these groups", '["nightly"]', ())


ON = ("waiting", "finished", "failed")


class Notify(Target):
    """`[notify.NAME]`: exactly one of `desktop`, `url` and `command`; the rest is optional."""

    desktop = Key[bool]("flag", "", "a notification on this desktop", "true", False)
    url = Key[str | None](
        "url", "", "a POST with the text as its body, as ntfy takes it", '"https://ntfy.sh/me"'
    )
    command = Key[str | None](
        "text", "", "a command to run; its environment describes the event", '"say agents"'
    )
    on = Key[tuple[str, ...]](
        "words",
        "",
        "when: a session waits for you, finished or failed",
        '["waiting", "finished", "failed"]',
        ON,
        choices=ON,
    )
    adapters = Key[tuple[str, ...]]("words", "", "only these agents", '["claude-code"]', ())
    groups = Key[tuple[str, ...]]("words", "", "only launches in these groups", '["nightly"]', ())
    title = Key[str | None]("text", "", "url: its title, instead of ours", '"agents"')
    priority = Key[str | None](
        "text", "", "url: its priority", '"high"', choices=("min", "low", "default", "high", "max")
    )
    token = Key[str | None]("text", "", "url: an access token", '"tk_…"', secret=True)


SECTIONS: Mapping[str, type[Section]] = {
    "defaults": Defaults,
    "launches": Launches,
    "worktrees": Worktrees,
    "fuses": Fuses,
    "daemon": Daemon,
    "journal": Journal,
    "metrics": Metrics,
}
KEYS: Mapping[str, Key[Any]] = {
    f"{name}.{word}": key for name, section in SECTIONS.items() for word, key in keys_of(section).items()
}
ADAPTER_KEYS, WEBHOOK_KEYS, NOTIFY_KEYS = keys_of(Agent), keys_of(Webhook), keys_of(Notify)
# The example targets in the file that `config init` writes, with the settings that each one shows.
NOTIFY_EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "desktop": ("desktop", "on", "adapters", "groups"),
    "phone": ("url", "title", "priority", "token"),
    "script": ("command",),
}
