"""The fake model server by itself, for people: `python -m tests.real.model_server --port 8099`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict
from types import FrameType

from agentctl.rehearsal.model.journal import Note, format_note
from agentctl.rehearsal.model.script import DIRECTIVES
from agentctl.rehearsal.model.server import Model

GATES = "\n\nTo open a gate, write its name and a newline to standard input."


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    over = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        over.set()

    with ExitStack() as stack:
        log = (
            stack.enter_context(open(options.journal, "a", encoding="utf-8"))
            if options.journal
            else None
        )

        def sink(note: Note) -> None:
            print(format_note(note), flush=True)
            if log:
                print(json.dumps(asdict(note)), file=log, flush=True)

        model = Model(sink).start(options.port)
        stack.callback(model.stop)
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, end)
        print(f"listening on {model.url}", flush=True)
        threading.Thread(target=_open_gates, args=(model,), daemon=True).start()
        over.wait()
    return 0


def _open_gates(model: Model) -> None:
    for line in sys.stdin:
        if name := line.strip():
            model.open(name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.real.model_server",
        description="A fake model server: Anthropic Messages, OpenAI Responses and chat completions.",
        epilog="The last user text of a request scripts its answer:\n\n" + DIRECTIVES + GATES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, help="default: any that is free")
    parser.add_argument("--journal", metavar="FILE", help="append what happens to FILE, as JSON lines")
    return parser


if __name__ == "__main__":
    sys.exit(main())
