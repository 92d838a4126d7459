"""Every error that this program raises on purpose, with its exit code.

AgentctlError                 exit 1  it failed
├── UsageError                     2  wrong arguments or settings
├── NotFound                       3  no such session, launch, fuse, lock …
├── Ambiguous                      3  several sessions match
├── Refused                        4  locked, or not ours to touch
├── Unreachable                    5  cannot be found out from here
│   └── NoDaemon                   5  no daemon runs for this state directory
├── MissingExtra                  69  an optional package is not installed
├── TimedOut                     124  the time limit was reached, as in timeout(1)
├── StartFailed                    1  an agent could not be started
├── Fault                          1  a request was answered with a JSON-RPC error
└── SourceError                    1  a file, a process or a database could not be read
    ├── Gone                          it does not exist (any more)
    ├── Forbidden                     the kernel refuses us
    │   └── Untrusted              4  another user owns our file, or may write to it
    ├── Temporary                     retry later: the disk is full, or another program has it locked
    │   └── Exhausted                 a limit of this machine or user is reached
    ├── Malformed                     its content makes no sense
    └── Unsupported                   this kernel or version cannot do it

Each source translates OS errors into SourceErrors at one place (`system/files.py`, `system/proc.py`,
`system/pidfd.py`, `system/sqlite.py`). No code above these modules sees an errno.
"""


class AgentctlError(Exception):
    """The base of all errors: one line that says what is wrong, and one `hint` that says what to do."""

    exit_code = 1
    output: tuple[str, ...] = ()  # the last lines of another program, if its failure is the reason

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
    """The launch was undone: nothing of it is left."""

    def __init__(self, message: str, hint: str = "", output: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.output = output


class Fault(AgentctlError):
    """A JSON-RPC error, by its code."""

    def __init__(self, code: int, message: str, request: str | int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.request = request  # the id of the request; None: it could not be read


class SourceError(AgentctlError):
    """One source could not be read. `kind` is the word that a Problem shows."""

    kind = "unreadable"

    def __init__(self, source: str, why: str, hint: str = "") -> None:
        super().__init__(f"{source}: {why}", hint)
        self.source = source
        self.why = why

    @property
    def advice(self) -> str:
        """The reason and the hint in one line, for a Problem."""
        return f"{self.why}; {self.hint}" if self.hint else self.why


class Gone(SourceError):
    kind = "gone"


class Forbidden(SourceError):
    kind = "forbidden"


class Untrusted(Forbidden):
    """The content may come from another user: do not believe it, and run no command from it."""

    exit_code = 4


class Temporary(SourceError):
    """Retry later. Not a subclass of Forbidden: code that skips what the kernel forbids must not skip
    this."""

    kind = "forbidden"


class Exhausted(Temporary):
    """The message names the limit to raise."""

    kind = "exhausted"


class Malformed(SourceError):
    kind = "malformed"


class Unsupported(SourceError):
    kind = "unsupported"
