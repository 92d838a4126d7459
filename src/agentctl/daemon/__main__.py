"""The daemon's program: takes the lock of its home, and runs until it is ended.

`--ready FD`: somebody waits at the other end of that pipe to be told one line: `ok`, `held WHO` or
`failed WHY`. It also says that nobody sits before our streams.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from agentctl import paths
from agentctl.daemon.lock import Singleton
from agentctl.errors import AgentctlError, Refused, Unreachable

NAME = b"agentctl-daemon"
MOST_OPEN = 8192  # descriptors


def main() -> None:
    ready, code = _ready_fd(sys.argv[1:]), 1
    try:
        code = run(ready)
    except Exception:  # noqa: BLE001 - said, not raised: the interpreter would wait for threads that hang
        traceback.print_exc()
    try:
        sys.stderr.flush()
    except OSError:  # nobody reads it
        pass
    os._exit(code)  # a part that hangs has threads that would be waited for


def run(ready: int | None) -> int:
    tell = teller(ready)
    _settle(ready)
    try:
        home = paths.state_directory(os.environ)
        if home is None:
            raise Unreachable("no home directory is known", "set AGENTCTL_HOME")
        if os.environ.get("AGENTCTL_HOME"):
            os.environ["AGENTCTL_HOME"] = home  # it was told from another directory
        os.chdir("/")  # no directory is ours to hold
        lock = Singleton(home)
    except AgentctlError as error:
        tell(f"{'held' if isinstance(error, Refused) else 'failed'} {error}")
        if ready is None:
            sys.stderr.write(f"agentctl: {error}\n  {error.hint}\n")
        return error.exit_code
    return _serve(lock, tell, detached=ready is not None)


def _serve(lock: Singleton, tell: Callable[[str], None], *, detached: bool) -> int:
    """The costly imports come only now: of twenty that are started at once, nineteen end above."""
    import asyncio
    import logging

    from agentctl.daemon import log
    from agentctl.daemon.app import App
    from agentctl.daemon.systemd import notify

    def ready() -> None:
        tell("ok")
        notify("READY=1")

    try:
        log.begin(lock.home, detached=detached)
        asyncio.run(App(lock, dict(os.environ)).run(ready))
    except OSError as error:
        logging.getLogger("agentctl.daemon.app").error("cannot run: %s", error)  # noqa: TRY400
        tell(f"failed {error}")
        return 1
    return 0


def _settle(ready: int | None) -> None:
    try:
        with open("/proc/self/comm", "wb") as file:
            file.write(NAME)
    except OSError:  # not Linux
        pass
    _open_enough()
    if ready is not None:
        _close_all_but(ready)


def _open_enough() -> None:
    """Each agent takes a handle and a few files that stay open; a login allows 1024 in all."""
    from resource import RLIMIT_NOFILE, getrlimit, setrlimit

    soft, hard = getrlimit(RLIMIT_NOFILE)
    try:
        setrlimit(RLIMIT_NOFILE, (max(soft, min(hard, MOST_OPEN)), hard))
    except (OSError, ValueError):  # then with what there is
        pass


def _close_all_but(ready: int) -> None:
    """A lock or a pipe of the verb's caller is not ours to hold for as long as we live."""
    os.set_inheritable(ready, False)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd != ready:
            try:
                os.close(fd)
            except OSError:  # the one that was open to list them
                pass


def _ready_fd(words: list[str]) -> int | None:
    if not words:
        return None
    if len(words) == 2 and words[0] == "--ready" and words[1].isdigit():
        return int(words[1])
    sys.stderr.write("usage: python -m agentctl.daemon\n  `agentctl daemon start` is for people\n")
    sys.exit(2)


def teller(ready: int | None) -> Callable[[str], None]:
    """Tells how it went, once: after that the descriptor's number may be another file's."""
    left = ready

    def tell(word: str) -> None:
        nonlocal left
        fd, left = left, None
        if fd is None:
            return
        try:
            os.write(fd, word.replace("\n", " ").encode("utf-8", "surrogateescape") + b"\n")
            os.close(fd)
        except OSError:  # it has not waited
            pass

    return tell


if __name__ == "__main__":
    main()
