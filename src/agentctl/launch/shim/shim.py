"""The parent of one launched agent: starts it, stores its output, waits, writes the exit record.

Runs in a Python of its own, without site, and imports almost nothing: a shim lives as long as its agent,
and there may be dozens. Only the end of a child wakes it. It has four descriptors: SPEC, REPORT, GO and
NOTE. It only holds NOTE, so that other programs can read which launch it belongs to
(`truth/launches.py`).

    shim                                       launcher
    forks the agent, which waits before exec
    "PID START\\n"               ── REPORT ──▶   writes note and lock for that very process
                                ◀─── GO ────   "g"
    the agent runs: "0\\n", or the errno        reads the session id, and returns
    writes FOLDER/exit when the agent ends
                                ◀─── GO ────   "x": the start failed; closed: it began
    becomes the finishing work

The launcher may die at any moment. Before "g", the shim then ends and nothing was started. After "g",
the shim does not need the launcher.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # enums cost a fifth of our start
import os
import time

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
# The exit code with which `expire` asks to be called again, and the file that says when.
AGAIN, AGAIN_FILE = 75, "again"
RECHECK = 60.0  # seconds, if that file cannot be read
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ABORTED = 125
RESERVED = 200  # bytes, more than an exit record needs


class Spec:
    """What to do, from the launcher: fields that end in NUL; a list begins with its length."""

    def __init__(self, data: bytes) -> None:
        fields = iter(data.split(b"\0"))
        self.folder = next(fields)
        self.cwd = next(fields)
        self.timeout = float(next(fields))  # seconds; 0: none
        self.argv, self.environ, self.finishing, self.expiring = (
            [next(fields) for _ in range(int(next(fields)))] for _ in range(4)
        )

    @staticmethod
    def encode(
        folder: str,
        cwd: str,
        timeout: float,
        lists: tuple[list[bytes], list[bytes], list[bytes], list[bytes]],
    ) -> bytes:
        fields = [os.fsencode(folder), os.fsencode(cwd), b"%f" % timeout]
        for each in lists:
            fields += [b"%d" % len(each), *each]
        return b"\0".join(fields) + b"\0"


def main(spec_fd: int, report: int, go: int, note: int) -> None:
    _close_all_but(spec_fd, report, go, note)
    with open(spec_fd, "rb") as file:
        spec = Spec(file.read())
    _set_name()
    for number in IGNORED:  # they are for the agent; the shim must record its end
        signal.signal(number, signal.SIG_IGN)
    ready, failure = os.pipe(), os.pipe()
    agent = os.fork()
    if agent == 0:
        os.close(ready[1])
        _become(spec, ready[0], failure[1])
    os.close(ready[0])
    os.close(failure[1])
    os.write(report, b"%d %s\n" % (agent, _start_ticks(agent)))
    _adopt_orphans()  # while the launcher writes
    if os.read(go, 1) != b"g":
        os.close(ready[1])  # the agent's process reads its end and leaves
        os.waitpid(agent, 0)
        return
    os.write(ready[1], b"g")
    os.close(ready[1])
    errno = os.read(failure[0], 16)  # empty: exec has closed the pipe
    try:
        os.write(report, (errno or b"0") + b"\n")
    except OSError:  # the launcher has died
        pass
    _watch_over(agent, spec, go, note, has_started=not errno)


def _become(spec: Spec, ready: int, failure: int) -> None:
    """Wait for "g" in the child process, then exec the agent."""
    try:
        if os.read(ready, 1) != b"g":
            os._exit(ABORTED)
        os.setsid()
        os.chdir(spec.cwd)
        for number in (*IGNORED, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(spec.folder + b"/stdin", os.O_RDONLY), 0)
        for stream, name in ((1, b"/stdout"), (2, b"/stderr")):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            os.dup2(os.open(spec.folder + name, flags, 0o600), stream)
        os.execve(spec.argv[0], spec.argv, dict(pair.split(b"=", 1) for pair in spec.environ))
    except OSError as error:
        os.write(failure, b"%d" % (error.errno or 1))
    os._exit(ABORTED)


def _watch_over(agent: int, spec: Spec, go: int, note: int, *, has_started: bool) -> None:
    os.chdir("/")  # do not hold the caller's directory
    boot_time = _boot_time()
    if has_started:
        _reserve(spec.folder)
    expiring: list[int] = []  # pids of `expire`
    if spec.timeout:
        signal.signal(signal.SIGALRM, lambda *_: expiring.append(_spawn(spec.expiring)))
        signal.setitimer(signal.ITIMER_REAL, spec.timeout)
    while True:
        pid, status, usage = os.wait3(0)  # also the agent's orphans, which are our children now
        if pid == agent:
            break
        if pid in expiring and os.waitstatus_to_exitcode(status) == AGAIN:
            signal.setitimer(signal.ITIMER_REAL, _read_more_time(spec.folder))
    signal.setitimer(signal.ITIMER_REAL, 0)
    code = os.waitstatus_to_exitcode(status)
    if has_started:
        _write_exit_record(
            spec.folder,
            code,
            (usage.ru_utime, usage.ru_stime, usage.ru_maxrss),
            boot_time - _boot_time(),
        )
    # The launcher decides whether the launch has failed: wait for its word or its end.
    if os.read(go, 1) == b"x" or not has_started:
        return
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    os.set_inheritable(note, True)  # a wrapper may have ended while the agent lives on
    os.execve(spec.finishing[0], spec.finishing, os.environb)


def _reserve(folder: bytes) -> None:
    """Reserve room for the exit record: the disk may be full when the agent ends."""
    try:
        fd = os.open(folder + b"/exit.new", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, b" " * RESERVED)
        os.close(fd)
    except OSError:  # the write at the end may still succeed
        pass


def _boot_time() -> float:
    """Return the boot time by the wall clock. It changes when the clock is set."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def _write_exit_record(folder: bytes, code: int, usage: tuple[float, float, int], back: float) -> None:
    """Write the exit record. `back`: seconds by which the clock was set back during the run. What the
    agent wrote before that seems to be later than its end."""
    user, system, memory = usage
    record = f'{{"code": {code}, "at": {time.time():.6f}, "user_s": {user:.3f}, '
    record += f'"system_s": {system:.3f}, "max_rss_kb": {memory}, '
    record += f'"clock_back_s": {max(0.0, back):.3f}}}\n'
    try:
        fd = os.open(folder + b"/exit.new", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, record.encode().ljust(RESERVED))  # over the reserved bytes
        os.fsync(fd)
        os.close(fd)
        os.rename(folder + b"/exit.new", folder + b"/exit")
    except OSError:  # our state was deleted, or the disk is full: there is no record
        pass


def _spawn(argv: list[bytes]) -> int:
    try:
        return os.posix_spawn(argv[0], argv, os.environb)
    except OSError:  # no process available, or Python was removed: the shim goes on
        return 0


def _read_more_time(folder: bytes) -> float:
    """Return the seconds until `expire` is called again."""
    try:
        with open(folder + b"/" + AGAIN_FILE.encode(), "rb") as file:
            return max(0.001, float(file.read()))
    except (OSError, ValueError):  # a full disk, or our state was deleted
        return RECHECK


def _start_ticks(pid: int) -> bytes:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[19]


def _close_all_but(*descriptors: int) -> None:
    """Close what the caller had open besides its streams, such as a lock of `flock` or a pipe: the agent
    would hold it for as long as it lives."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd in descriptors:
            os.set_inheritable(fd, False)
        elif fd > 2:
            try:
                os.close(fd)
            except OSError:  # the descriptor of listdir itself
                pass


def _set_name() -> None:
    with open("/proc/self/comm", "wb") as file:
        file.write(b"agentctl-shim")


def _adopt_orphans() -> None:
    """Become the parent of processes that the agent leaves behind, so that `stop` finds them."""
    import ctypes

    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
