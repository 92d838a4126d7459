"""Run one verb and report what it does to the machine: every audit event that starts, sends, signals or
writes, each file and directory that it opens, its peak memory and the bytes that it read. Called with
the report's path and the verb's words."""

import json
import os
import runpy
import signal
import sys
from typing import NoReturn

STARTS = ("subprocess.", "os.fork", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "pty.")
SENDS = ("socket.",)
SIGNALS = ("os.kill", "os.killpg", "signal.")
CHANGES = (
    "os.chflags", "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.removexattr",
    "os.rename", "os.rmdir", "os.setxattr", "os.symlink", "os.truncate", "os.utime", "shutil.",
)  # fmt: skip
OPENS = ("open", "os.listdir", "os.scandir", "sqlite3.connect")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def main(report: str, words: list[str]) -> None:
    effects: list[tuple[str, str]] = []
    opened: list[str] = []

    def hook(event: str, values: tuple[object, ...]) -> None:
        if event in OPENS:
            opened.append(str(values[0]))
        if event.startswith((*STARTS, *SENDS, *SIGNALS)):
            effects.append((event, repr(values)))
        elif event.startswith(CHANGES):
            effects.append((event, str(values[0])))
        elif event == "open":
            path, mode, flags = values
            is_written = isinstance(flags, int) and flags & WRITING
            if is_written or (isinstance(mode, str) and set(mode) & set("wax+")):
                effects.append(("open for writing", str(path)))
        elif event == "sqlite3.connect":
            text = str(values[0])
            if "mode=ro" not in text:
                effects.append(("a database opened for writing", text))

    def leave(status: int) -> NoReturn:
        raise SystemExit(status)

    def send_signal(*values: object) -> None:
        effects.append(("signal.pidfd_send_signal", repr(values)))

    os._exit = leave  # the report comes after the verb
    signal.pidfd_send_signal = send_signal  # Python raises no audit event for it
    sys.argv = ["agentctl", *words]
    sys.addaudithook(hook)
    code: object = 0
    try:
        runpy.run_module("agentctl", run_name="__main__")
    except SystemExit as end:
        code = end.code
    report_data = {
        "code": code,
        "effects": list(effects),
        "opened": list(opened),
    }  # what follows is ours
    with open("/proc/self/status", encoding="ascii") as file:
        memory = next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
    with open("/proc/self/io", encoding="ascii") as file:
        read = int(file.readline().split()[1])
    with open(report, "w", encoding="utf-8") as file:
        json.dump({**report_data, "memory_kb": memory, "read": read}, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
