"""Homes full of finished sessions: the same for the same size and moment, realistic in number, size
and spread, and cheap enough to make at every run.

    python -m tests.bench.corpus DIRECTORY 5000
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agentctl.system.clock import format_rfc3339
from tests.bench import natives
from tests.bench.natives import Bulk, Plan, Rows

SEED = "agentctl"
DIRECTORIES = 40
DAYS = 120
GIANT = 5 << 30  # bytes, nearly all of them a hole
AGENTS = ("claude-code",) * 8 + ("codex",) * 6 + ("opencode",) * 4 + ("pi",) * 2
ENDINGS = ("completed",) * 15 + ("interrupted",) * 2 + ("killed",) * 2 + ("failed",)
TASKS = (
    "fix the failing test in", "explain how to configure", "write documentation for",
    "rename the public function of", "find out why it is slow:", "review the last change to",
)  # fmt: skip
SCHEMA = Path(__file__).parent.parent / "corpus" / "opencode" / "schema.sql"


class Corpus(NamedTuple):
    """The files of a home, and one id per session."""

    home: Path
    ids: Mapping[str, Sequence[str]]  # by agent
    files: Sequence[str]  # transcripts, and OpenCode's one database

    @property
    def bytes(self) -> int:
        """What it takes on disk."""
        return sum(os.stat(path).st_blocks * 512 for path in self.files)


def build(home: Path, sessions: int, *, now: float, giant: bool = False) -> Corpus:
    """Session `i` of one home is session `i` of any other; only `now` moves their times."""
    bulk = Bulk(SEED)
    ids: dict[str, list[str]] = {agent: [] for agent in dict.fromkeys(AGENTS)}
    files: list[str] = []
    rows: list[Rows] = []
    for index in range(sessions):
        rng = random.Random(f"{SEED}:{index}")
        plan = _plan(index, rng, home, now)
        ids[plan.agent].append(plan.id)
        if plan.agent == "opencode":
            rows.append(natives.opencode(plan, rng, bulk))
        else:
            files.append(_write(home, plan, rng, bulk))
    if rows:
        files.append(_write_database(database(home), rows, now))
    if ids["codex"]:
        _write_titles(home, ids["codex"], now)
    if giant:
        rng = random.Random(f"{SEED}:giant")
        plan = _plan(0, rng, home, now)._replace(
            agent="claude-code", id=natives.random_uuid(rng), turns=9
        )
        ids["claude-code"].append(plan.id)
        files.append(_write_giant(home, plan, rng, bulk))
    return Corpus(home, ids, files)


def database(home: Path) -> Path:
    return home / ".local/share/opencode/opencode.db"


def transcript(home: Path, plan: Plan) -> Path:
    """Return where the agent itself would write it."""
    stamp = (format_rfc3339(plan.started_at) or "").replace(":", "-")
    if plan.agent == "claude-code":
        return home / ".claude/projects" / natives.claude_slug(plan.cwd) / f"{plan.id}.jsonl"
    if plan.agent == "codex":
        day = stamp[:10].replace("-", "/")
        return home / ".codex/sessions" / day / f"rollout-{stamp[:19]}-{plan.id}.jsonl"
    name = f"{stamp.replace('.', '-')}_{plan.id}.jsonl"
    return home / ".pi/agent/sessions" / natives.pi_slug(plan.cwd) / name


def _plan(index: int, rng: random.Random, home: Path, now: float) -> Plan:
    agent = AGENTS[index % len(AGENTS)]
    ended_at = now - 60 - rng.random() * DAYS * 86400
    turns = min(30, 1 + int(rng.expovariate(0.5)))
    started_at = ended_at - turns * rng.uniform(20, 600)
    identity = {
        "claude-code": lambda: natives.random_uuid(rng),
        "codex": lambda: natives.timed_uuid(rng, started_at),
        "opencode": lambda: natives.opencode_id("ses", rng, started_at),
        "pi": lambda: natives.timed_uuid(rng, started_at),
    }[agent]()
    directory = rng.randrange(DIRECTORIES)
    cwd = str(home.with_name("work") / f"project-{directory:02d}")
    prompt = f"{rng.choice(TASKS)} module {index}"
    return Plan(agent, identity, cwd, prompt, started_at, ended_at, turns, rng.choice(ENDINGS))


def _write(home: Path, plan: Plan, rng: random.Random, bulk: Bulk) -> str:
    lines = {"claude-code": natives.claude, "codex": natives.codex, "pi": natives.pi}[plan.agent]
    path = transcript(home, plan)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(lines(plan, rng, bulk)).encode())
    os.utime(path, (plan.ended_at, plan.ended_at))
    return str(path)


def _write_titles(home: Path, threads: Iterable[str], now: float) -> None:
    """Write Codex's index of names, in the order of the threads; one thread in three has a name."""
    path = home / ".codex/session_index.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, thread in enumerate(threads):
            if number % 3 == 0:
                name = {
                    "id": thread,
                    "thread_name": f"thread {number}",
                    "updated_at": format_rfc3339(now),
                }
                file.write(natives.line(name))


def _write_giant(home: Path, plan: Plan, rng: random.Random, bulk: Bulk) -> str:
    """Write the beginning and end of a normal transcript, with a hole between them."""
    path = transcript(home, plan)
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = "".join(natives.claude(plan, rng, bulk)).encode()
    middle = whole.index(b"\n", len(whole) // 2) + 1
    with path.open("wb") as file:
        file.write(whole[:middle])
        file.seek(GIANT)
        file.write(b"\n" + whole[middle:])
    os.utime(path, (plan.ended_at, plan.ended_at))
    return str(path)


def _write_database(path: Path, rows: Iterable[Rows], now: float) -> str:
    """Write it with its write-ahead log beside it, as OpenCode leaves it: closing the last connection
    would fold the log, so the files are copied while a connection is open."""
    source = path.parent / "being-made"
    source.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(source / path.name)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = off")
    connection.executescript(SCHEMA.read_text(encoding="utf-8"))
    created = int((now - DAYS * 86400) * 1000)
    connection.execute(
        "insert into project (id, worktree, time_created, time_updated, sandboxes)"
        " values ('global', '/', ?, ?, '[]')",
        (created, created),
    )
    insert_rows(connection, rows)
    for name in os.listdir(source):
        shutil.copyfile(source / name, path.parent / name)
    connection.close()
    shutil.rmtree(source)
    return str(path)


def insert_rows(connection: sqlite3.Connection, rows: Iterable[Rows]) -> None:
    for session, messages, parts in rows:
        connection.execute(
            "insert into session (id, project_id, slug, directory, path, title, version, cost,"
            " tokens_input, tokens_output, tokens_cache_read, agent, model, time_created, time_updated)"
            f" values ({', '.join('?' * len(session))})",
            session,
        )
        connection.executemany("insert into message values (?, ?, ?, ?, ?)", messages)
        connection.executemany("insert into part values (?, ?, ?, ?, ?, ?)", parts)
        last = len(messages) - 1
        connection.execute("insert into event_sequence values (?, ?, null)", (session[0], last))
        events = [
            (f"evt{str(m[0])[3:]}", session[0], seq, "message.updated.1", m[4])
            for seq, m in enumerate(messages)
        ]
        connection.executemany("insert into event values (?, ?, ?, ?, ?)", events)
        connection.commit()  # many small ones, so that the log is folded as it grows


if __name__ == "__main__":
    began = time.monotonic()
    result = build(Path(sys.argv[1]).resolve() / "home", int(sys.argv[2]), now=time.time(), giant=True)
    took = time.monotonic() - began
    print(f"{len(result.files)} files, {result.bytes >> 20} MB in {took:.1f} s")
