"""Every error this program raises on purpose; each leaf is an answer, not a place.

AgentctlError                 exit 1  it failed
├── UsageError                     2  the words of the call are off
├── NotFound                       3  no session by that id
├── Ambiguous                      3  several sessions by that prefix
├── Refused                        4  locked, or not ours to touch
├── Unreachable                    5  cannot be told from here
│   └── NoDaemon                   5  no daemon runs for this home
├── MissingExtra                  69  an optional package is not installed
├── TimedOut                     124  it did not happen in the time given, as timeout(1) says it
├── StartFailed                    1  an agent could not be started; it said why
├── Fault                          1  a request that was answered with an error, by its JSON-RPC code
└── SourceError                    1  one source of facts could not be read
    ├── Gone                          it is not there (any more)
    ├── Forbidden                     the kernel refuses us
    │   └── Untrusted              4  another user owns our own file, or may write to it
    ├── Passing                       for now: the disk is full, or another program holds it
    │   └── Exhausted                 a limit of this machine or user is reached
    ├── Malformed                     it is there and makes no sense
    └── Unsupported                   this kernel or version cannot tell

OS errors become SourceErrors at one seam per source (`system/files.py`, `system/proc.py`,
`system/pidfd.py`, `system/sqlite.py`); nothing above those seams sees an errno.
"""


class AgentctlError(Exception):
    """Base of all: one line that says what, one `hint` that says what to do."""

    exit_code = 1
    said: tuple[str, ...] = ()  # another program's own words, where it is its error that we tell

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(AgentctlError):
    exit_code = 2


class NotFound(AgentctlError):
    exit_code = 3


class Ambiguous(AgentctlError):
    exit_code = 3


class Refused(AgentctlError):
    exit_code = 4


class Unreachable(AgentctlError):
    exit_code = 5


class NoDaemon(Unreachable):
    pass


class MissingExtra(AgentctlError):
    exit_code = 69


class TimedOut(AgentctlError):
    exit_code = 124


class StartFailed(AgentctlError):
    """Nothing of the launch is left behind."""

    def __init__(self, message: str, hint: str = "", said: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.said = said


class Fault(AgentctlError):
    def __init__(self, code: int, message: str, request: str | int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.request = request  # the id of what it answers; None: that could not be read


class SourceError(AgentctlError):
    """One source could not be read; `kind` is the word a Problem shows."""

    kind = "unreadable"

    def __init__(self, source: str, why: str, hint: str = "") -> None:
        super().__init__(f"{source}: {why}", hint)
        self.source = source
        self.why = why

    @property
    def advice(self) -> str:
        """What and what to do in one line, for a Problem."""
        return f"{self.why}; {self.hint}" if self.hint else self.why


class Gone(SourceError):
    kind = "gone"


class Forbidden(SourceError):
    kind = "forbidden"


class Untrusted(Forbidden):
    """What it says may be another user's words: it is neither believed nor run."""

    exit_code = 4


class Passing(SourceError):
    """Who has the time tries again. No refusal: whoever passes over those must not pass over this."""

    kind = "forbidden"


class Exhausted(Passing):
    """The message names the limit to raise."""

    kind = "exhausted"


class Malformed(SourceError):
    kind = "malformed"


class Unsupported(SourceError):
    kind = "unsupported"
