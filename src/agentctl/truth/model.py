"""The words of the domain, as immutable values. No I/O here, and no place to store a status:
`Verdict` is only ever the return value of `judge()`.

NamedTuples, not dataclasses: importing `dataclasses` costs more than reading eight sessions
(docs/adr/0002-named-tuples.md). Without `annotations` from `__future__`, for the same reason: as text,
each of the fields below would be compiled when this is imported.
"""

from typing import TYPE_CHECKING, Literal, NamedTuple

from agentctl.system.identity import ProcessIdentity

if TYPE_CHECKING:
    from agentctl.system.proc import Process

Status = Literal["running", "waiting", "idle", "stopped", "unknown"]
Activity = Literal["working", "waiting", "idle", "unknown"]
WaitingFor = Literal["permission", "question", "startup"]
Outcome = Literal["completed", "failed", "interrupted", "killed", "unknown"]
EntryPoint = Literal["interactive", "headless", "background", "daemon"]
Role = Literal["user", "assistant", "tool", "system"]

STATUSES: tuple[Status, ...] = ("waiting", "running", "idle", "unknown", "stopped")

# alive      this very process exists and runs the session
# ambiguous  several could, and nothing tells which
# ended      the process that ran it, named by a record, a lock, our shim or a handle, exists no more
# hidden     its owner, if any, is where we cannot look (foreign pid namespace, other user or machine)
# gone       every process that could be running it is visible and recognisable, and none does
# working    its turn is open
# waiting    its turn is open and blocked on a person (detail: permission, question, startup)
# idle       its turn is over (detail: how it ended, where the source says so)
# exited     its process ended with this code or signal (value: code, or minus the signal)
# suspended  its process exists and runs nothing until somebody continues it (Ctrl-Z, SIGSTOP)
Claim = Literal[
    "alive", "ambiguous", "ended", "hidden", "gone", "working", "waiting", "idle", "exited", "suspended",
]  # fmt: skip

# kernel   the kernel's word on a process
# record   a live status the agent itself publishes
# journal  the agent's transcript or database: what it wrote down after the fact
# derived  concluded from several facts, none of which says it outright
Authority = Literal["kernel", "record", "journal", "derived"]


class Evidence(NamedTuple):
    """One fact and where to check it."""

    claim: Claim
    address: str  # proc:PID@START, /path/file.json, /path/file.jsonl@OFFSET
    authority: Authority
    at: float | None = None  # when it became true at the source; None: the source does not say
    detail: str = ""  # waiting: what for; idle: how the turn ended; else empty
    note: str = ""  # for people: what the source literally says
    trusted: bool = True  # False: vocabulary we do not know, or a record that fails validation
    value: int | None = None  # exited: exit code, or minus the signal number


class Tokens(NamedTuple):
    """Totals of a session; None where the agent does not write that part."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None


class Turn(NamedTuple):
    """What the agent's own files say of its last turn."""

    claim: Literal["working", "waiting", "idle"]
    detail: str = ""  # waiting: what for; idle: completed, failed, interrupted
    at: float | None = None  # when that was written
    offset: int | None = None  # of the telling record in the transcript
    note: str = ""  # the telling word, literally


class Facts(NamedTuple):
    """What a session's own files say of it. Made of plain values only, so that a cache can keep
    what a file said. Every None means: not written, or not within the bytes we read."""

    cwd: str | None = None
    model: str | None = None
    title: str | None = None
    prompt: str | None = None  # the first one, its first PROMPT_CAP characters
    started_at: float | None = None
    last_activity_at: float | None = None
    tokens: Tokens | None = None
    cost_usd: float | None = None
    entry_point: EntryPoint | None = None
    agent_version: str | None = None
    parent_id: str | None = None  # the session that forked or spawned this one
    turn: Turn | None = None
    garbled: int = 0  # records that could not be read


PROMPT_CAP = 1000


class Observation(NamedTuple):
    """All that one adapter knows of one session after one look. No opinion in it."""

    adapter: str
    session_id: str | None  # None: a live agent process that has no session yet
    evidence: tuple[Evidence, ...]
    facts: Facts = Facts()
    owner: "Process | None" = None  # the live process bound to it
    transcript: str | None = None
    candidates: tuple["Process", ...] = ()  # who may run it, where nothing tells which
    tied_by: str = ""  # where to check that the owner runs it; a path, if it is a file's word


class Verdict(NamedTuple):
    """What follows from the evidence. Computed by `judge()`, never stored."""

    status: Status
    activity: Activity
    waiting_for: WaitingFor | None  # None unless waiting
    outcome: Outcome | None  # None while it lives
    exit_code: int | None  # None: not known. Never 0 for want of knowledge
    reason: str  # one sentence
    used: tuple[Evidence, ...]  # what it rests on, the deciding pieces first, then those that agree
    overruled: tuple[Evidence, ...]
    suspended: bool = False  # its process is stopped by a signal, and does nothing until it is continued


class Problem(NamedTuple):
    """A source that could not be read or understood; travels beside the sessions."""

    adapter: str  # "" : not of one adapter
    kind: str  # gone, forbidden, malformed, unsupported, drift, late, broken, stale
    message: str
    source: str = ""


class Exit(NamedTuple):
    """How a process that we started ended: its parent's word, kept on disk."""

    code: int  # exit code, or minus the signal
    at: float
    address: str  # the file that says so
    clock_back: float = 0.0  # seconds by which the time of day was set back while it ran


class HookRun(NamedTuple):
    """One run of a person's own command at the start or the end of a launch."""

    hook: str  # on-create, on-complete
    command: str
    code: int | None  # None: it was ended for taking too long
    seconds: float
    output: str  # the file that holds what it said


class Worktree(NamedTuple):
    """The checkout that was made for a launch."""

    repository: str  # its main checkout
    path: str
    branch: str
    base: str  # the commit it began at


class Launch(NamedTuple):
    """What only we know of a start we made. Decorates a session, never creates or kills one."""

    id: str
    identity: ProcessIdentity
    session_id: str | None = None
    name: str | None = None
    group: str | None = None
    spec: str | None = None
    meta: tuple[tuple[str, str], ...] = ()
    adapter: str | None = None
    cwd: str | None = None
    model: str | None = None  # as asked for
    worktree: Worktree | None = None
    on_complete: str | None = None
    created_at: float | None = None
    ended: Exit | None = None
    hooks: tuple[HookRun, ...] = ()
    expired_at: float | None = None  # its time was over then, and it was ended for that
    namespace: str | None = None  # of pids, that the identity belongs to; None: an older note, ours
    prompt: str | None = None  # its first PROMPT_CAP characters; None: an older note


class Session(NamedTuple):
    """What every view gets."""

    seen: Observation
    verdict: Verdict
    launch: Launch | None = None


class Message(NamedTuple):
    """One thing said in a session."""

    key: str  # its place in the transcript; equal only for the same message
    role: Role
    text: str
    at: float | None = None
    tool: str | None = None  # the tool called or answering
