"""The parent of one launched agent: starts it, keeps its output, waits, writes down how it ended.

Runs in a Python of its own, without site, and imports next to nothing: it stays for as long as the
agent does, and there may be dozens. Nothing wakes it but the end of a process it is the parent of. It
is given four descriptors: SPEC, REPORT, GO, and one that it only holds, so that whoever looks at it
finds there which launch it is the parent of (`truth/launched.py`).

    shim                                       launcher
    forks the agent, which waits before exec
    "PID START\\n"               ── REPORT ──▶   writes note and lock for that very process
                                ◀─── GO ────   "g"
    the agent runs: "0\\n", or the errno        reads which session it became, and returns
    writes FOLDER/exit when the agent ends
                                ◀─── GO ────   "x": it failed to start, forget it; closed: it began
    becomes the finishing work

The launcher may die at any moment. Before "g" that ends everything here, and nothing was started;
after it, the shim needs nobody.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without enums: a fifth of our start
import os
import time

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
AGAIN, AGAIN_FILE = 75, "again"  # what `expire` leaves where it is to be asked once more, and when
RECHECK = 60.0  # seconds, where that cannot be read
OURS_TO_OUTLIVE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ABORTED = 125
RESERVED = 200  # bytes, more than a record has


class Spec:
    """What to do, as the launcher wrote it: fields that end in NUL; a list has its length first."""

    def __init__(self, data: bytes) -> None:
        fields = iter(data.split(b"\0"))
        self.folder = next(fields)
        self.cwd = next(fields)
        self.timeout = float(next(fields))  # seconds; 0: none
        self.argv, self.environ, self.finishing, self.expiring = (
            [next(fields) for _ in range(int(next(fields)))] for _ in range(4)
        )

    @staticmethod
    def written(
        folder: str,
        cwd: str,
        timeout: float,
        lists: tuple[list[bytes], list[bytes], list[bytes], list[bytes]],
    ) -> bytes:
        fields = [os.fsencode(folder), os.fsencode(cwd), b"%f" % timeout]
        for each in lists:
            fields += [b"%d" % len(each), *each]
        return b"\0".join(fields) + b"\0"


def main(spec_fd: int, report: int, go: int, carried: int) -> None:
    _close_all_but(spec_fd, report, go, carried)
    with open(spec_fd, "rb") as file:
        spec = Spec(file.read())
    _name_ourselves()
    for number in OURS_TO_OUTLIVE:  # they are meant for the agent; its end is ours to write down
        signal.signal(number, signal.SIG_IGN)
    ready, told = os.pipe(), os.pipe()
    agent = os.fork()
    if agent == 0:
        os.close(ready[1])
        _become(spec, ready[0], told[1])
    os.close(ready[0])
    os.close(told[1])
    os.write(report, b"%d %s\n" % (agent, _start_ticks(agent)))
    _adopt_orphans()  # while the launcher writes
    if os.read(go, 1) != b"g":
        os.close(ready[1])  # the agent's process reads its end and leaves
        os.waitpid(agent, 0)
        return
    os.write(ready[1], b"g")
    os.close(ready[1])
    failure = os.read(told[0], 16)  # closed by exec
    try:
        os.write(report, (failure or b"0") + b"\n")
    except OSError:  # the launcher has died: nobody to tell
        pass
    _watch_over(agent, spec, go, carried, started=not failure)


def _become(spec: Spec, ready: int, told: int) -> None:
    """In the agent's process: wait for the word, then be the agent."""
    try:
        if os.read(ready, 1) != b"g":
            os._exit(ABORTED)
        os.setsid()
        os.chdir(spec.cwd)
        for number in (*OURS_TO_OUTLIVE, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(spec.folder + b"/stdin", os.O_RDONLY), 0)
        for stream, name in ((1, b"/stdout"), (2, b"/stderr")):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            os.dup2(os.open(spec.folder + name, flags, 0o600), stream)
        os.execve(spec.argv[0], spec.argv, dict(pair.split(b"=", 1) for pair in spec.environ))
    except OSError as error:
        os.write(told, b"%d" % (error.errno or 1))
    os._exit(ABORTED)


def _watch_over(agent: int, spec: Spec, go: int, carried: int, *, started: bool) -> None:
    os.chdir("/")  # the caller's directory is not ours to hold
    began = _booted()
    if started:
        _reserve(spec.folder)
    asked: list[int] = []  # the last process that was asked whether the time is over
    if spec.timeout:
        signal.signal(signal.SIGALRM, lambda *_: asked.append(_spawn(spec.expiring)))
        signal.setitimer(signal.ITIMER_REAL, spec.timeout)
    while True:
        pid, status, usage = os.wait3(0)  # also its orphans, which are ours now
        if pid == agent:
            break
        if pid in asked and os.waitstatus_to_exitcode(status) == AGAIN:
            signal.setitimer(signal.ITIMER_REAL, _more_time(spec.folder))
    signal.setitimer(signal.ITIMER_REAL, 0)
    code = os.waitstatus_to_exitcode(status)
    if started:
        _write_down(
            spec.folder, code, (usage.ru_utime, usage.ru_stime, usage.ru_maxrss), began - _booted()
        )
    # Whether the launch has failed is the launcher's to say, and while it has not said so, its to say.
    if os.read(go, 1) == b"x" or not started:
        return
    for number in OURS_TO_OUTLIVE:
        signal.signal(number, signal.SIG_DFL)
    os.set_inheritable(carried, True)  # what has ended may have been a wrapper, and the agent lives on
    os.execve(spec.finishing[0], spec.finishing, os.environb)


def _reserve(folder: bytes) -> None:
    """The disk may be full when the agent ends."""
    try:
        fd = os.open(folder + b"/exit.new", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, b" " * RESERVED)
        os.close(fd)
    except OSError:  # then it is tried once more at the end
        pass


def _booted() -> float:
    """When the machine booted, by the time of day: another moment after the clock was set."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def _write_down(folder: bytes, code: int, used: tuple[float, float, int], back: float) -> None:
    """`back`: seconds by which the clock was set back meanwhile. What the agent wrote before that seems
    to be later than its end."""
    user, system, memory = used
    record = f'{{"code": {code}, "at": {time.time():.6f}, "user_s": {user:.3f}, '
    record += f'"system_s": {system:.3f}, "max_rss_kb": {memory}, '
    record += f'"clock_back_s": {max(0.0, back):.3f}}}\n'
    try:
        fd = os.open(folder + b"/exit.new", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, record.encode().ljust(RESERVED))  # over what was reserved
        os.fsync(fd)
        os.close(fd)
        os.rename(folder + b"/exit.new", folder + b"/exit")
    except OSError:  # our state was deleted, or the disk is full: how it ended is then not known
        pass


def _spawn(argv: list[bytes]) -> int:
    try:
        return os.posix_spawn(argv[0], argv, os.environb)
    except OSError:  # no process to be had, or no such Python any more: its end is still ours to note
        return 0


def _more_time(folder: bytes) -> float:
    """Seconds. A full disk, or our state was deleted: its time is not over for ever."""
    try:
        with open(folder + b"/" + AGAIN_FILE.encode(), "rb") as file:
            return max(0.001, float(file.read()))
    except (OSError, ValueError):
        return RECHECK


def _start_ticks(pid: int) -> bytes:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[19]


def _close_all_but(*kept: int) -> None:
    """What a caller has open besides its streams (a lock of `flock`, a pipe somebody reads to its end)
    is not the agent's to hold for as long as it lives."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd in kept:
            os.set_inheritable(fd, False)
        elif fd > 2:
            try:
                os.close(fd)
            except OSError:  # the one that was open to list them
                pass


def _name_ourselves() -> None:
    with open("/proc/self/comm", "wb") as file:
        file.write(b"agentctl-shim")


def _adopt_orphans() -> None:
    """Processes that the agent leaves behind come to us instead of init: `stop` finds them here."""
    import ctypes

    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
