"""The benchmark runs and its corpus is what it says: structure only, never time."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.bench import corpus, run
from tests.bench.corpus import Corpus, build
from tests.bench.measure import Command, Meter
from tests.bench.scale import SMOKE

NOW = 1_790_000_000.0


@pytest.fixture
def made(tmp_path: Path) -> Corpus:
    return build(tmp_path / "home", 20, now=NOW, giant=True)


def test_the_corpus_has_every_agent(made: Corpus) -> None:
    counts = {agent: len(ids) for agent, ids in made.ids.items()}
    assert counts == {"claude-code": 9, "codex": 6, "opencode": 4, "pi": 2}
    for path in map(Path, made.files):
        if path.suffix == ".jsonl" and path.stat().st_size < corpus.GIANT:
            assert all(json.loads(line) for line in path.read_bytes().splitlines())


def test_the_corpus_is_the_same_again(made: Corpus, tmp_path: Path) -> None:
    again = build(tmp_path / "other" / "home", 20, now=NOW, giant=True)
    assert again.ids == made.ids
    sizes = [Path(path).stat().st_blocks for path in made.files]
    assert len(sizes) == len(again.files)


def test_the_giant_is_mostly_a_hole(made: Corpus) -> None:
    giant = max(map(Path, made.files), key=lambda path: path.stat().st_size)
    assert giant.stat().st_size > corpus.GIANT
    assert giant.stat().st_blocks * 512 < 4 << 20


def test_the_database_keeps_its_log(made: Corpus) -> None:
    path = corpus.database(made.home)
    assert path.with_name(f"{path.name}-wal").stat().st_size > 0
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    ids = [row[0] for row in connection.execute("select id from session")]
    connection.close()
    assert sorted(ids) == sorted(made.ids["opencode"])


def test_the_meter_tells_time_and_memory() -> None:
    with Meter() as meter:
        commands = {
            "true": Command(["/bin/true"], {}),
            "bare": run.bare({}),
        }
        cost = meter.compare(commands, 2)
        with pytest.raises(RuntimeError, match="exit code 1"):
            meter.run(Command(["/bin/false"], {}))
    assert 0 < cost["true"].memory <= cost["bare"].memory < 40


def test_the_benchmark_runs(tmp_path: Path) -> None:
    rows, notes = run.measure(SMOKE, tmp_path)
    assert len(rows) == 31
    assert all(row.ours > 0 or row.unit == "missed" for row in rows)
    assert notes
    assert run.report(rows, notes).count("\n|") == len(rows) + 1
