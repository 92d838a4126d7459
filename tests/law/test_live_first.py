"""A verb on a live session does the work of `list`: the stores of ended sessions stay closed."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bench import corpus
from tests.bench.live import Troupe
from tests.law.asking import REPOSITORY, SOURCES

ENDED = 60
LIVE = 8
MOST = 1.2  # times the files that `list` opens
VERBS = ("status", "stop --dry-run", "logs", "why", "peek")  # the first few in the short form


class Machine(NamedTuple):
    troupe: Troupe
    ended_ids: Mapping[str, Sequence[str]]  # by agent
    opened_by_list: list[str]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    root = tmp_path_factory.mktemp("machine")
    stores = corpus.build(root / "home", ENDED, now=time.time())
    with Troupe(root) as troupe:
        troupe.grow_to(LIVE)
        yield Machine(troupe, stores.ids, list_opened(troupe.environ, root, "list"))


def list_opened(environ: Mapping[str, str], root: Path, *words: str) -> list[str]:
    """Return the path of each file and directory of the agents that the verb opens. What it opens in
    /proc depends on the other processes of this machine."""
    report = root / "report.json"
    command = [sys.executable, "-m", "tests.law.watched", str(report), *words]
    path = f"{SOURCES}:{REPOSITORY}"
    ran = subprocess.run(
        command,
        env={**environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    result = json.loads(report.read_bytes())
    assert result["code"] == 0, ran.stderr.decode()
    agents = (f"{root}/home", f"file:{root}/home")
    return [name for name in result["opened"] if name.startswith(agents)]


def find_live_ids(machine: Machine) -> dict[str, str]:
    """Return the id of one live session by agent."""
    return {s.adapter: p.session_id for s, p in machine.troupe.puppets if p.session_id is not None}


@pytest.mark.few(3)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_on_a_live_session_opens_few_more_files_than_list(machine: Machine, verb: str) -> None:
    most = len(machine.opened_by_list) * MOST
    ended_ids = [session_id for ids in machine.ended_ids.values() for session_id in ids]
    for agent, session_id in find_live_ids(machine).items():
        for text in (session_id, session_id[:-3]):
            opened = list_opened(machine.troupe.environ, machine.troupe.home.parent, *verb.split(), text)
            extra = sorted(set(opened) - set(machine.opened_by_list))
            assert len(opened) <= most, (agent, len(opened), most, extra)
            assert not [name for name in opened if any(ended_id in name for ended_id in ended_ids)]


def test_an_ended_session_opens_its_store(machine: Machine) -> None:
    """Otherwise the test above proves nothing."""
    session_id = machine.ended_ids["claude-code"][0]
    opened = list_opened(machine.troupe.environ, machine.troupe.home.parent, "why", session_id)
    assert [name for name in opened if session_id in name]
    assert len(opened) > len(machine.opened_by_list)
