"""The values of the domain, immutable. No I/O here, and no place to store a status: a `Verdict` is only
ever the return value of `judge()`.

NamedTuples, not dataclasses: importing `dataclasses` costs more than reading eight sessions
(docs/adr/0002-named-tuples.md).
"""

from __future__ import annotations

from agentctl.light_typing import TYPE_CHECKING, Any, Literal, NamedTuple
from agentctl.system.proc import ProcessIdentity

if TYPE_CHECKING:
    from agentctl.system.proc import Process

Status = Literal["running", "waiting", "idle", "stopped", "unknown"]
Activity = Literal["working", "waiting", "idle", "unknown"]
WaitingFor = Literal["permission", "question", "startup"]
Outcome = Literal["completed", "failed", "interrupted", "killed", "unknown"]
EntryPoint = Literal["interactive", "headless", "background", "daemon"]
Role = Literal["user", "assistant", "tool", "system"]

STATUSES: tuple[Status, ...] = ("waiting", "running", "idle", "unknown", "stopped")

# alive      the process that runs the session exists
# ambiguous  several processes could run it, and no source says which
# ended      the process that ran it, named by a record, a lock, our shim or a handle, exists no more
# hidden     its owner, if any, is where we cannot look (foreign pid namespace, other user or machine)
# gone       every process that could be running it is visible and recognisable, and none does
# working    its turn is open
# waiting    its turn is open and blocked on the user (detail: permission, question, startup)
# idle       its turn is over (detail: how it ended, where the source says so)
# exited     its process ended with this code or signal (value: code, or minus the signal)
# suspended  its process exists and runs nothing until it is continued (Ctrl-Z, SIGSTOP)
Claim = Literal[
    "alive", "ambiguous", "ended", "hidden", "gone", "working", "waiting", "idle", "exited", "suspended",
]  # fmt: skip

# kernel   the kernel's word on a process
# record   a live status the agent itself publishes
# journal  the agent's transcript or database: what it wrote after the fact
# derived  concluded from several facts, none sufficient alone
Authority = Literal["kernel", "record", "journal", "derived"]


class Evidence(NamedTuple):
    """One fact and where to check it."""

    claim: Claim
    address: str  # proc:PID@START, /path/file.json, /path/file.jsonl@OFFSET
    authority: Authority
    at: float | None = None  # when it became true at the source; None: the source does not say
    detail: str = ""  # waiting: what for; idle: how the turn ended; else empty
    note: str = ""  # for the user: what the source literally says
    trusted: bool = True  # False: a value we do not know, or a record that fails validation
    value: int | None = None  # exited: exit code, or minus the signal number


class Tokens(NamedTuple):
    """Totals of a session; None: the agent does not write this part."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None


class Turn(NamedTuple):
    """What the agent's own files say about its last turn."""

    claim: Literal["working", "waiting", "idle"]
    detail: str = ""  # waiting: what for; idle: completed, failed, interrupted
    at: float | None = None  # when the record was written
    offset: int | None = None  # of the deciding record in the transcript
    note: str = ""  # the deciding word, literally


class Facts(NamedTuple):
    """What a session's own files say. Plain values only, so that a cache can keep them. None means: not
    written, or not within the bytes that we read."""

    cwd: str | None = None
    model: str | None = None
    title: str | None = None
    prompt: str | None = None  # the first PROMPT_CAP characters of the first prompt
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

# Facts as plain values, for a cache. Thousands of sessions share a few directories, models and words:
# one object for each is written once and read back once.
PackedFacts = tuple[Any, ...]
_SHARED: dict[str, str] = {}
_new = tuple.__new__  # takes half the time of Facts(…), whose __new__ is a Python function


def pack_facts(facts: Facts) -> PackedFacts:
    cwd, model, title, prompt, began, last, tokens, cost, entry, version, parent, turn, garbled = facts
    packed_tokens = None if tokens is None else tuple(tokens)
    packed_turn = None if turn is None else tuple(map(_share, turn))
    cwd, model, entry, version = map(_share, (cwd, model, entry, version))
    return (
        cwd, model, title, prompt, began, last, packed_tokens, cost, entry, version, parent, packed_turn,
        garbled,
    )  # fmt: skip


def unpack_facts(packed: PackedFacts) -> Facts:
    """Return the facts that `pack_facts` packed. Raises TypeError or ValueError for anything else."""
    cwd, model, title, prompt, began, last, tokens, cost, entry, version, parent, turn, garbled = packed
    if tokens is not None:
        _, _, _, _ = tokens
        tokens = _new(Tokens, tokens)
    if turn is not None:
        _, _, _, _, _ = turn
        turn = _new(Turn, turn)
    fields = (
        cwd,
        model,
        title,
        prompt,
        began,
        last,
        tokens,
        cost,
        entry,
        version,
        parent,
        turn,
        garbled,
    )
    return _new(Facts, fields)


def _share(value: Any) -> Any:
    return _SHARED.setdefault(value, value) if type(value) is str else value


class Observation(NamedTuple):
    """All that one adapter found about one session in one look. It holds no verdict."""

    adapter: str
    session_id: str | None  # None: a live agent process that has no session yet
    evidence: tuple[Evidence, ...]
    facts: Facts = Facts()
    owner: Process | None = None  # the live process bound to it
    transcript: str | None = None
    candidates: tuple[Process, ...] = ()  # processes that may run it, if the owner is ambiguous
    owner_source: str = ""  # where to check that the owner runs it: a path, if a file says so


class Verdict(NamedTuple):
    """What follows from the evidence. Computed by `judge()`, never stored."""

    status: Status
    activity: Activity
    waiting_for: WaitingFor | None  # None unless waiting
    outcome: Outcome | None  # None while it lives
    exit_code: int | None  # None: not known, which is never shown as 0
    reason: str  # one sentence
    used: tuple[Evidence, ...]  # the deciding pieces first, then those that agree
    overruled: tuple[Evidence, ...]
    suspended: bool = False  # a signal has stopped its process, which runs nothing until it is continued


class Problem(NamedTuple):
    """A source that could not be read or understood; returned beside the sessions."""

    adapter: str  # "": of no single adapter
    kind: str  # gone, forbidden, malformed, unsupported, drift, late, broken, stale
    message: str
    source: str = ""


class Exit(NamedTuple):
    """How a process that we started ended, as its shim recorded it on disk."""

    code: int  # exit code, or minus the signal
    at: float
    address: str  # the file that says so
    clock_back: float = 0.0  # seconds by which the time of day was set back while it ran


class HookRun(NamedTuple):
    """One run of a user's command at the start or the end of a launch."""

    hook: str  # on-create, on-complete
    command: str
    code: int | None  # None: it was killed for taking too long
    seconds: float
    output: str  # the file that holds its output


class Worktree(NamedTuple):
    """The git worktree that we created for a launch."""

    repository: str  # its main checkout
    path: str
    branch: str
    base: str  # the commit that it began at


class Launch(NamedTuple):
    """A launch note: what only we know about an agent that we started. It labels a session, and never
    makes one live or dead."""

    id: str
    identity: ProcessIdentity
    session_id: str | None = None
    name: str | None = None
    group: str | None = None
    spec: str | None = None
    meta: tuple[tuple[str, str], ...] = ()
    adapter: str | None = None
    cwd: str | None = None
    model: str | None = None  # as requested
    worktree: Worktree | None = None
    on_complete: str | None = None
    created_at: float | None = None
    exit: Exit | None = None
    hooks: tuple[HookRun, ...] = ()
    expired_at: float | None = None  # when its --timeout was over and it was stopped
    namespace: str | None = None  # the pid namespace of the identity; None: ours, in an older note
    prompt: str | None = None  # the first PROMPT_CAP characters; None: an older note


class Session(NamedTuple):
    """One row of every view."""

    observation: Observation
    verdict: Verdict
    launch: Launch | None = None


class Message(NamedTuple):
    """One message of a session."""

    key: str  # its place in the transcript, unique in the session
    role: Role
    text: str
    at: float | None = None
    tool: str | None = None  # the tool called or answering
