"""The benchmark runs and its corpus is what it says: the structure, never times."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from tests.bench import corpus, run
from tests.bench.corpus import Corpus, build
from tests.bench.measure import Command, Meter
from tests.bench.scale import SMOKE

NOW = 1_790_000_000.0


@pytest.fixture
def small_corpus(tmp_path: Path) -> Corpus:
    return build(tmp_path / "home", 20, now=NOW, giant=True)


def test_the_corpus_has_every_agent(small_corpus: Corpus) -> None:
    counts = {agent: len(ids) for agent, ids in small_corpus.ids.items()}
    assert counts == {"claude-code": 9, "codex": 6, "opencode": 4, "pi": 2}
    for path in map(Path, small_corpus.files):
        if path.suffix == ".jsonl" and path.stat().st_size < corpus.GIANT:
            assert all(json.loads(line) for line in path.read_bytes().splitlines())


def test_a_corpus_of_the_same_size_and_time_is_the_same(small_corpus: Corpus, tmp_path: Path) -> None:
    again = build(tmp_path / "other" / "home", 20, now=NOW, giant=True)
    assert again.ids == small_corpus.ids
    for one, other in zip(small_corpus.files, again.files, strict=True):
        if one.endswith(".jsonl") and os.stat(one).st_size < corpus.GIANT:
            text = Path(other).read_text("utf-8").replace(str(tmp_path / "other"), str(tmp_path))
            assert text == Path(one).read_text("utf-8")


def test_the_giant_is_mostly_a_hole(small_corpus: Corpus) -> None:
    giant = max(map(Path, small_corpus.files), key=lambda path: path.stat().st_size)
    assert giant.stat().st_size > corpus.GIANT
    assert giant.stat().st_blocks * 512 < 4 << 20


def test_the_database_has_its_log(small_corpus: Corpus) -> None:
    path = corpus.database(small_corpus.home)
    assert path.with_name(f"{path.name}-wal").stat().st_size > 0
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    ids = [row[0] for row in connection.execute("select id from session")]
    connection.close()
    assert sorted(ids) == sorted(small_corpus.ids["opencode"])


def test_the_meter_measures_time_and_memory() -> None:
    with Meter() as meter:
        commands = {
            "true": Command(["/bin/true"], {}),
            "bare": run.bare({}),
        }
        cost = meter.compare(commands, 2)
        with pytest.raises(RuntimeError, match="exit code 1"):
            meter.run(Command(["/bin/false"], {}))
    assert 0 < cost["true"].memory <= cost["bare"].memory < 40


@pytest.mark.slow
def test_the_benchmark_runs(tmp_path: Path) -> None:
    rows, notes = run.measure(SMOKE, tmp_path)
    assert len(rows) == 36
    assert all(row.ours > 0 or row.unit == "missed" for row in rows)
    assert notes
    assert run.report(rows, notes).count("\n|") == len(rows) + 1
