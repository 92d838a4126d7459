"""The cost of the hot verbs against their limits: `make bench`.

Writes build/bench.json and build/bench.md. A limit is a ratio to a floor measured in the same run,
so it means the same on any machine. Exit code 0, unless --check is given and a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agentctl.system import file_holders, proc
from tests.bench import corpus, launching, serving, stopping, watched
from tests.bench.corpus import Corpus
from tests.bench.live import Troupe
from tests.bench.measure import Command, Meter
from tests.bench.row import Row
from tests.bench.scale import QUICK, Scale

BINARIES = os.path.dirname(sys.executable)
AGENTCTL = os.path.join(BINARIES, "agentctl")
FLOOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "floor.py")
BUILD = Path(__file__).parents[2] / "build"
SINCE_DAYS = 90
MEGABYTE = 1 << 20
SCANS = 20


def scan_row(home: Path) -> Row:
    """The search for processes that have an agent's files open to write, which precedes the verdict that
    an open turn was killed. Its floor is reading the process table, which every look does."""
    table = proc.read_table()
    began = time.process_time()
    for _ in range(SCANS):
        proc.read_table()
    table_done = time.process_time()
    for _ in range(SCANS):
        list(file_holders.find_writers(proc.read_table().values(), [str(home)]))
    scanned = time.process_time() - table_done
    floor = (table_done - began) * 1000 / SCANS
    what = f"look for writers among {len(table)} processes, the table included"
    return Row(what, scanned * 1000 / SCANS, floor, 12)


class Bench:
    def __init__(self, meter: Meter, root: Path, scale: Scale) -> None:
        self.meter = meter
        self.root = root
        self.scale = scale
        self.notes: list[str] = []

    def rows(self) -> Iterator[Row]:
        yield from self._start_up()
        yield from self._launch()
        yield from self._stop()
        yield from self._histories()
        yield from self._crowds()
        yield from self.daemon()

    def daemon(self) -> Iterator[Row]:
        environ = {"HOME": str(self.root), "PATH": "/usr/bin:/bin"}
        floor = self.meter.compare({"bare": bare(environ)}, self.scale.rounds)["bare"].cpu * 1000
        return watched.rows(self.root, self.scale.watching, self.scale.flood, self.notes, floor)

    def _start_up(self) -> Iterator[Row]:
        environ = {"HOME": str(self.root), "PATH": "/usr/bin:/bin"}
        commands = {"bare": bare(environ), "v": ours(environ, "--version"), "h": ours(environ, "--help")}
        cost = self.meter.compare(commands, self.scale.rounds)
        floor = cost["bare"].cpu * 1000
        yield Row("bare interpreter", floor, None, None)
        yield Row("--version", cost["v"].cpu * 1000, floor, 2)
        yield Row("--help", cost["h"].cpu * 1000, floor, 4)

    def _launch(self) -> Iterator[Row]:
        took = launching.measure(self.root / "launch", AGENTCTL, self.scale.slow_rounds)
        yield Row("launch to its id, wall time", took.ours * 1000, took.own * 1000, 1.3)

    def _stop(self) -> Iterator[Row]:
        took = stopping.measure(self.root / "stop", AGENTCTL, self.scale.slow_rounds)
        yield Row("stop of an idle agent, wall time", took.ours * 1000, took.least * 1000, 6)

    # a few live agents beside a long history

    def _histories(self) -> Iterator[Row]:
        scale, now = self.scale, time.time()
        with ExitStack() as stack:
            troupes: dict[int, Troupe] = {}
            built: dict[int, Corpus] = {}
            for size in scale.histories:
                stage = self.root / f"history-{size}"
                giant = size == scale.histories[-1]
                built[size] = corpus.build(stage / "home", size, now=now, giant=giant)
                troupes[size] = stack.enter_context(Troupe(stage))
            largest = scale.histories[-1]
            yield from self._everything(troupes[largest], built[largest], now)
            for troupe in troupes.values():
                troupe.grow_to(scale.live)
            self._note_history(troupes[largest], built[largest])
            yield from self._list_beside_history(troupes)
            yield from self._one_of_many(troupes[largest], built[largest])
            yield scan_row(built[largest].home)
            yield from self._memory(troupes[largest], built[largest])

    def _note_history(self, troupe: Troupe, history: Corpus) -> None:
        """Note the answers of the commands measured below: a wrong answer makes the cost worthless."""
        everything = self._answer(ours(troupe.environ, "list", "-a", "--json"))
        expected, count = sum(map(len, history.ids.values())), len(everything["sessions"])
        problems = len(everything["problems"])
        self.notes.append(
            f"{expected} ended sessions in {history.bytes >> 20} MB and {len(troupe.puppets)} live "
            f"agents: `list -a` finds {count} sessions and {problems} problems"
        )
        self._note_live_agents(troupe)

    def _note_live_agents(self, troupe: Troupe) -> None:
        listing = self._answer(ours(troupe.environ, "list", "--json"))
        bound = [s for s in listing["sessions"] if s["id"] is not None]
        states = ", ".join(sorted({s["status"] for s in bound}))
        self.notes.append(
            f"{len(troupe.puppets)} live agents: `list` finds {len(bound)} with a session ({states}) "
            f"and {len(listing['problems'])} problems"
        )

    def _list_beside_history(self, troupes: Mapping[int, Troupe]) -> Iterator[Row]:
        sizes = list(troupes)
        last = troupes[sizes[-1]]
        commands = {"bare": bare(last.environ), "alone": ours(last.deserted, "list")}
        commands |= {str(size): ours(t.environ, "list") for size, t in troupes.items()}
        cost = self.meter.compare(commands, self.scale.rounds)
        floor = cost["bare"].cpu * 1000
        yield Row(f"list, 0 live, history {sizes[-1]}", cost["alone"].cpu * 1000, floor, None)
        for size in sizes:
            what = f"list, {self.scale.live} live, history {size}"
            yield Row(what, cost[str(size)].cpu * 1000, floor, 5)
        most, least = cost[str(sizes[-1])].cpu * 1000, cost[str(sizes[0])].cpu * 1000
        yield Row(f"list, history {sizes[-1]} against {sizes[0]}", most, least, 1.1)

    def _one_of_many(self, troupe: Troupe, history: Corpus) -> Iterator[Row]:
        size = self.scale.histories[-1]
        chosen = {agent: ids[len(ids) // 2] for agent, ids in history.ids.items() if ids}
        live: dict[str, str] = {}  # by agent
        for stage, puppet in troupe.puppets:
            if puppet.session_id is not None:
                live.setdefault(stage.adapter, puppet.session_id)
        for verb in ("status", "why", "peek", "logs", "stop --dry-run"):
            words = verb.split()
            commands = {"list": ours(troupe.environ, "list")}
            commands |= {f"live {name}": ours(troupe.environ, *words, id_) for name, id_ in live.items()}
            if verb in ("status", "why", "peek"):
                commands |= {name: ours(troupe.environ, *words, id_) for name, id_ in chosen.items()}
            cost = self.meter.compare(commands, self.scale.rounds // 2 + 1)
            floor = cost.pop("list").cpu * 1000
            worst = max((name for name in cost if name in chosen), key=lambda n: cost[n].cpu, default="")
            slowest = max(live, key=lambda name: cost[f"live {name}"].cpu)
            what = f"{verb} of a live one beside {size}, worst: {slowest}"
            yield Row(what, cost[f"live {slowest}"].cpu * 1000, floor, 1.2)
            if worst:
                what = f"{verb} of one in {size}, worst: {worst}"
                yield Row(what, cost[worst].cpu * 1000, floor, 1.7)

    def _everything(self, troupe: Troupe, history: Corpus, now: float) -> Iterator[Row]:
        """History alone, as the floors read it: the live agents have rows of their own."""
        environ = troupe.environ
        cache = Path(environ["AGENTCTL_HOME"]) / "cache"
        since = str(now - SINCE_DAYS * 86400)
        words = ("list", "-a", "--since", f"{SINCE_DAYS}d", "--json")
        size = self.scale.histories[-1]
        commands = {
            "stat": floor_program(environ, "stat", str(history.home), since),
            "warm": ours(environ, *words),
        }
        cost = self.meter.compare(commands, self.scale.slow_rounds)
        yield Row(
            f"list -a --since {SINCE_DAYS}d --json, {size}, warm",
            cost["warm"].cpu * 1000, cost["stat"].cpu * 1000, 5,
        )  # fmt: skip
        commands = {
            "read": floor_program(environ, "read", str(history.home), since),
            "cold": ours(environ, *words)._replace(before=lambda: forget(cache)),
        }
        cost = self.meter.compare(commands, self.scale.slow_rounds)
        yield Row(
            f"list -a --since {SINCE_DAYS}d --json, {size}, cold",
            cost["cold"].cpu * 1000, cost["read"].cpu * 1000, 3,
        )  # fmt: skip

    def _memory(self, troupe: Troupe, history: Corpus) -> Iterator[Row]:
        giant = history.ids["claude-code"][-1]
        commands = {"list": ("list",), "list --json": ("list", "--json"), "doctor": ("doctor",)}
        for verb in ("status", "why", "peek", "logs"):
            commands |= {
                f"{verb} of {agent}": (verb, ids[0]) for agent, ids in history.ids.items() if ids
            }
            commands[f"{verb} of 5 GB"] = (verb, giant)
        used = {name: self._memory_of(troupe, words) for name, words in commands.items()}
        worst = max(used, key=lambda name: used[name])
        yield Row(f"memory of a read verb, worst: {worst}", used[worst], None, 40, "MB")
        yield Row("memory of list", used["list"], None, 40, "MB")
        cache = Path(troupe.environ["AGENTCTL_HOME"]) / "cache"
        most = 0.0
        for words in (("list", "-a"), ("list", "-a", "--json")):
            forget(cache)
            cold = self._memory_of(troupe, words)
            most = max(most, cold, self._memory_of(troupe, words))
        yield Row(f"memory of list -a, {self.scale.histories[-1]}", most, None, 64, "MB")

    def _memory_of(self, troupe: Troupe, words: Iterable[str]) -> float:
        return self.meter.run(ours(troupe.environ, *words))[1]

    # many live agents

    def _crowds(self) -> Iterator[Row]:
        stage = self.root / "crowd"
        corpus.build(stage / "home", self.scale.histories[0], now=time.time())
        with Troupe(stage) as troupe:
            for count in self.scale.crowds:
                troupe.grow_to(count, transcript=self.scale.transcript)
                self._note_live_agents(troupe)
                commands = {"bare": bare(troupe.environ), "list": ours(troupe.environ, "list")}
                cost = self.meter.compare(commands, self.scale.rounds // 2 + 1)
                limit = 13 if count == self.scale.crowds[-1] else None
                what = f"list, {count} live, {self.scale.transcript / MEGABYTE:g} MB each"
                yield Row(what, cost["list"].cpu * 1000, cost["bare"].cpu * 1000, limit)
                yield Row(f"memory of list, {count} live", cost["list"].memory, None, 40, "MB")
            yield self._by_daemon(troupe)

    def _by_daemon(self, troupe: Troupe) -> Row:
        blocks = max(1, self.scale.rounds // serving.BLOCK + 1)
        took = serving.measure(self.meter, AGENTCTL, troupe.environ, blocks=blocks)
        self.notes.append(f"by the daemon: client {took.client:.1f} ms, daemon {took.daemon:.1f} ms")
        what = f"list through the daemon, {len(troupe.puppets)} live, both"
        return Row(what, took.ours, took.bare, 4.5)

    def _answer(self, command: Command) -> dict[str, Any]:
        out, err = self.root / "answer.json", self.root / "answer.err"
        self.meter.run(command, out=str(out), err=str(err))
        answer: dict[str, Any] = json.loads(out.read_bytes())
        for problem in answer["problems"][:3]:
            self.notes.append(f"problem: {problem}")
        return answer


def bare(environ: Mapping[str, str]) -> Command:
    return Command([sys.executable, "-I", "-c", "pass"], environ)


def ours(environ: Mapping[str, str], *words: str) -> Command:
    return Command([AGENTCTL, *words], environ)


def floor_program(environ: Mapping[str, str], *words: str) -> Command:
    return Command([sys.executable, "-I", FLOOR, *words], environ)


def forget(cache: Path) -> None:
    for path in cache.parent.glob(f"{cache.name}*"):
        path.unlink()


def measure(scale: Scale, root: Path, *, daemon: bool = False) -> tuple[list[Row], list[str]]:
    """Print each row when it is measured. Return all, with notes on what was measured."""
    rows = []
    with Meter() as meter:
        bench = Bench(meter, root, scale)
        for row in bench.daemon() if daemon else bench.rows():
            rows.append(row)
            print(format_cells(row.cells()), flush=True)
    return rows, bench.notes


def format_cells(cells: list[str]) -> str:
    what, *rest = cells
    return f"{what:<52}" + "".join(f"{cell:>11}" for cell in rest)


def report(rows: list[Row], notes: list[str]) -> str:
    head = ["what", "ours", "floor", "ratio", "limit", ""]
    lines = [head, ["---"] * len(head), *(row.cells() for row in rows)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"{table}\n\n" + "".join(f"- {note}\n" for note in notes)


def save(rows: list[Row], notes: list[str]) -> None:
    BUILD.mkdir(exist_ok=True)
    shapes = [{**row._asdict(), "ratio": row.ratio, "verdict": row.verdict} for row in rows]
    (BUILD / "bench.json").write_text(
        json.dumps({"rows": shapes, "notes": notes}, indent=1) + "\n", encoding="utf-8"
    )
    (BUILD / "bench.md").write_text(report(rows, notes), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small corpus: does it run at all")
    parser.add_argument("--daemon", action="store_true", help="only what the daemon costs as it watches")
    parser.add_argument("--check", action="store_true", help="exit 1 when a limit is missed")
    arguments = parser.parse_args()
    print(format_cells(["what", "ours", "floor", "ratio", "limit", ""]))
    with tempfile.TemporaryDirectory(prefix="agentctl-bench-") as directory:
        scale = QUICK if arguments.quick else Scale()
        rows, notes = measure(scale, Path(directory), daemon=arguments.daemon)
    for note in notes:
        print(note)
    save(rows, notes)
    missed = any(row.verdict == "MISS" for row in rows)
    return int(arguments.check and missed)


if __name__ == "__main__":
    sys.exit(main())
