"""One agent's plays while tools are sampled; inside the agent's room. Prints one JSON object a play.

python -m tests.real.accuracy.playing AGENT [--play TITLE]… [--tool NAME]…
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.real.accuracy import record
from tests.real.accuracy.record import Record
from tests.real.accuracy.sampler import Pace, Sample, Sampler
from tests.real.accuracy.score import Judge
from tests.real.accuracy.stream import LATE, Scorer
from tests.real.accuracy.timeline import Timeline
from tests.real.accuracy.tools import Tool, available
from tests.real.lab import Lab, read_output
from tests.real.listening import Listening
from tests.real.pins import Pin, agents
from tests.real.scenarios import Play, repertoire
from tests.running import SOURCES
from tests.waiting import until

OURS = Pace(interval=0.05, at_once=2, politely=False)
OTHERS = Pace(interval=0.05, at_once=1, politely=True)  # in turn; their questions cost ours its time


def measure(pin: Pin, title: str, play: Play, tools: Sequence[Tool], root: Path) -> dict[str, Any]:
    """Play it once while all tools are sampled."""
    samplers: list[Sampler] = []

    def poke() -> None:
        for sampler in samplers:
            sampler.poke()

    timeline = Timeline(poke)
    lab = Lab(pin, root, timeline)
    notifications = root / "notifications"
    record.write_notify_settings(Path(lab.journal).with_name("config.toml"), notifications)
    lab.starts_daemon()
    # `list` looks by itself here: what the daemon knows is measured by its events.
    environ = {**lab.environ, "PYTHONPATH": SOURCES, "AGENTCTL_NO_DAEMON": "1"}
    listening = Listening(timeline, lab.journal, lambda: False)
    take_record = partial(make_record, lab, timeline, listening, notifications)
    for some, pace in ((tools[:1], OURS), (tools[1:], OTHERS)):
        samplers += [Sampler(some, pace, timeline.census, environ, str(lab.work))] if some else []
    for sampler in samplers:
        sampler.start()
    broken = ""
    try:
        play(lab)
        wait_for_events(take_record)
    except Exception as error:  # noqa: BLE001 - a broken play must not stop the others
        broken = "".join(traceback.format_exception_only(error)).strip()
        print(f"{traceback.format_exc()}\n{read_output(lab.root)}", file=sys.stderr)
    finally:
        for sampler in samplers:
            sampler.stop()
        result = take_record()
        lab.close()
    return {
        "play": title,
        "broken": broken,
        "record": record.encode(result) if result is not None else None,
        "tools": {tool.name: _score(tool, _samples(samplers, tool), title, timeline) for tool in tools},
    }


def wait_for_events(take_record: Callable[[], Record | None]) -> None:
    """Give the last change as much time to be reported as all others have."""

    def nothing_is_missing() -> bool:
        play_record = take_record()
        findings = Scorer("", play_record).findings() if play_record is not None else []
        return not any(finding.kind == "missing" for finding in findings)

    with suppress(TimeoutError):
        until(nothing_is_missing, "every change is reported", LATE, beat=0.1)


def make_record(
    lab: Lab, timeline: Timeline, listening: Listening, notifications: Path
) -> Record | None:
    """None: the play deleted the journal."""
    if listening.deaf:
        return None
    notes = [note for note in lab.model.journal.notes() if not note.helper]
    return Record(
        timeline.actors,
        [record.stream_event(event) for event in listening.events()],
        frozenset(a.name for a in lab.actors if isinstance(a.body, subprocess.Popen)),
        {actor.name: tuple(actor.marks) for actor in lab.actors},
        [record.model_request(note) for note in notes],
        record.read_notifications(notifications),
    )


def _samples(samplers: Sequence[Sampler], tool: Tool) -> list[Sample]:
    return next(sampler.samples[tool.name] for sampler in samplers if tool.name in sampler.samples)


def _score(tool: Tool, samples: Sequence[Sample], title: str, timeline: Timeline) -> dict[str, Any]:
    times = [sample.asked_at for sample in samples]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    findings = Judge(tool, title, timeline.actors).findings(samples)
    return {
        "samples": len(times),
        "gap": statistics.median(gaps) if gaps else None,
        "unreadable": [sample.error for sample in samples if sample.rows is None],
        "took": statistics.median([s.answered_at - s.asked_at for s in samples]) if samples else None,
        "findings": [finding._asdict() for finding in findings],
    }


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.real.accuracy.playing")
    parser.add_argument("agent", choices=sorted(agents()))
    parser.add_argument("--play", action="append", metavar="TITLE")
    parser.add_argument("--tool", action="append", metavar="NAME")
    options = parser.parse_args(argv)
    pin = agents()[options.agent]
    plays = repertoire(pin.name).plays
    tools = [tool for tool in available(options.tool) if pin.adapter in tool.agents]
    # Results go to a copy of it: some agents start programs that write to the standard output they get.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for number, title in enumerate(options.play or plays):
        began = time.monotonic()
        result = measure(pin, title, plays[title], tools, Path(f"/tmp/lab{number}"))
        print(json.dumps(result), file=results, flush=True)
        outcome = "broken: " + result["broken"] if result["broken"] else "played"
        print(f"  {pin.name}: {title}: {outcome}, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    assert os.environ.get("AGENTCTL_ROOM"), "in a room alone: make accuracy"
    sys.exit(main(sys.argv[1:]))
