"""A user account that exists for one run: a free uid, and a passwd and a group file that list it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import NamedTuple

NAME = "agentctl-test"
# Below 60000 the numbers are a machine's own to hand out; service managers use those above.
FIRST, LAST = 50_000, 59_999


class Account(NamedTuple):
    uid: int
    home: Path

    def passwd(self, listed: str) -> str:
        return f"{_end_line(listed)}{NAME}:x:{self.uid}:{self.uid}::{self.home}:/bin/sh\n"

    def group(self, listed: str) -> str:
        return f"{_end_line(listed)}{NAME}:x:{self.uid}:\n"


def find_free_uid() -> int:
    """Return a uid without an account and without a process: every process that has it later is ours."""
    used = {entry.pw_uid for entry in pwd.getpwall()} | set(list_owners().values())
    return next(uid for uid in range(FIRST, LAST + 1) if uid not in used)


def list_owners() -> dict[int, int]:
    """Return the uid of every process."""
    uids = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                uids[int(name)] = os.stat(f"/proc/{name}").st_uid
            except (FileNotFoundError, ProcessLookupError):
                continue
    return uids


def _end_line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
