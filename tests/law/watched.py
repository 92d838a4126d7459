"""Runs one verb and writes down what it does to the machine: every audit event that starts, sends,
signals or writes, the highest memory it took and the bytes it read. Called by test_reads_only with
the report's path and the verb's words."""

import json
import os
import runpy
import sys
from typing import NoReturn

STARTS = ("subprocess.", "os.fork", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "pty.")
SENDS = ("socket.",)
SIGNALS = ("os.kill", "os.killpg", "signal.")
CHANGES = (
    "os.chflags", "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.removexattr",
    "os.rename", "os.rmdir", "os.setxattr", "os.symlink", "os.truncate", "os.utime", "shutil.",
)  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def main(report: str, words: list[str]) -> None:
    done: list[tuple[str, str]] = []

    def hook(event: str, given: tuple[object, ...]) -> None:
        if event.startswith((*STARTS, *SENDS, *SIGNALS)):
            done.append((event, repr(given)))
        elif event.startswith(CHANGES):
            done.append((event, str(given[0])))
        elif event == "open":
            path, mode, flags = given
            written = isinstance(flags, int) and flags & WRITING
            if written or (isinstance(mode, str) and set(mode) & set("wax+")):
                done.append(("open for writing", str(path)))
        elif event == "sqlite3.connect":
            text = str(given[0])
            if "mode=ro" not in text:
                done.append(("a database opened for writing", text))

    def leave(status: int) -> NoReturn:
        raise SystemExit(status)

    os._exit = leave  # the report comes after the verb
    sys.argv = ["agentctl", *words]
    sys.addaudithook(hook)
    code: object = 0
    try:
        runpy.run_module("agentctl", run_name="__main__")
    except SystemExit as end:
        code = end.code
    seen = list(done)
    with open("/proc/self/status", encoding="ascii") as file:
        memory = next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
    with open("/proc/self/io", encoding="ascii") as file:
        read = int(file.readline().split()[1])
    with open(report, "w", encoding="utf-8") as file:
        json.dump({"code": code, "done": seen, "memory_kb": memory, "read": read}, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
