"""The daemon's program: take the lock of the home, and run until a signal or a request ends it.

With `--ready FD` the starter waits at the other end of that pipe for one line: `ok`, `held WHO` or
`failed WHY`. Standard output and error are the log then.
"""

from __future__ import annotations

import os
import sys
import traceback

from agentctl import paths
from agentctl.daemon.lock import Singleton
from agentctl.errors import AgentctlError, Refused
from agentctl.light_typing import Callable
from agentctl.system import this_process

NAME = "agentctl-daemon"
MOST_OPEN = 8192  # descriptors


def main() -> None:
    ready, code = _ready_fd(sys.argv[1:]), 1
    try:
        code = run(ready)
    except Exception:  # noqa: BLE001 - printed, not raised: the interpreter would wait for threads
        traceback.print_exc()
    try:
        sys.stderr.flush()
    except OSError:  # the reader is gone
        pass
    os._exit(code)  # an ordinary exit would wait for the threads of a part that hangs


def run(ready: int | None) -> int:
    report = make_reporter(ready)
    _set_up(ready)
    try:
        home = paths.require_state_directory(os.environ)
        if os.environ.get("AGENTCTL_HOME"):
            os.environ["AGENTCTL_HOME"] = home  # absolute: the working directory changes below
        os.chdir("/")  # a daemon that stays in a directory would keep its file system busy
        lock = Singleton(home)
    except AgentctlError as error:
        report(f"{'held' if isinstance(error, Refused) else 'failed'} {error}")
        if ready is None:
            sys.stderr.write(f"agentctl: {error}\n  {error.hint}\n")
        return error.exit_code
    return _serve(lock, report, detached=ready is not None)


def _serve(lock: Singleton, report: Callable[[str], None], *, detached: bool) -> int:
    """Import the costly modules only now: of twenty that are started at once, nineteen end above."""
    import asyncio
    import logging

    from agentctl.daemon import log
    from agentctl.daemon.app import App
    from agentctl.daemon.systemd import notify

    def report_ready() -> None:
        report("ok")
        notify("READY=1")

    try:
        log.set_up(lock.home, detached=detached)
        asyncio.run(App(lock, dict(os.environ)).run(report_ready))
    except OSError as error:
        logging.getLogger("agentctl.daemon.app").error("cannot run: %s", error)  # noqa: TRY400
        report(f"failed {error}")
        return 1
    return 0


def _set_up(ready: int | None) -> None:
    try:
        this_process.set_name(NAME)
    except OSError:  # not Linux
        pass
    _raise_descriptor_limit()
    if ready is not None:
        _close_all_but(ready)


def _raise_descriptor_limit() -> None:
    """Each agent needs a handle and a few files that stay open; a login allows 1024 in all."""
    from resource import RLIMIT_NOFILE, getrlimit, setrlimit

    soft, hard = getrlimit(RLIMIT_NOFILE)
    try:
        setrlimit(RLIMIT_NOFILE, (max(soft, min(hard, MOST_OPEN)), hard))
    except (OSError, ValueError):  # the limit stays as it is
        pass


def _close_all_but(ready: int) -> None:
    """Close what the starter left open: the daemon would hold its locks and pipes."""
    os.set_inheritable(ready, False)
    for fd in this_process.list_descriptors():
        if fd > 2 and fd != ready:
            try:
                os.close(fd)
            except OSError:  # the descriptor that listed them
                pass


def _ready_fd(words: list[str]) -> int | None:
    if not words:
        return None
    if len(words) == 2 and words[0] == "--ready" and words[1].isdigit():
        return int(words[1])
    sys.stderr.write("usage: python -m agentctl.daemon\n  agentctl daemon start\n")
    sys.exit(2)


def make_reporter(ready: int | None) -> Callable[[str], None]:
    """Return a function that writes its first line to the starter: later, the descriptor's number may be
    another file's."""
    unused = ready

    def report(line: str) -> None:
        nonlocal unused
        fd, unused = unused, None
        if fd is None:
            return
        try:
            os.write(fd, line.replace("\n", " ").encode("utf-8", "surrogateescape") + b"\n")
            os.close(fd)
        except OSError:  # the starter has gone
            pass

    return report


if __name__ == "__main__":
    main()
