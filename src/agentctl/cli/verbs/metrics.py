"""What there is to measure, as Prometheus reads it."""

from __future__ import annotations

import argparse
import json
import os
import sys

from agentctl.cli.parser import Parser, add_json
from agentctl.daemon_client import client as rpc
from agentctl.daemon_client import start
from agentctl.errors import Fault, NoDaemon, Unreachable
from agentctl.metrics import collect, exposition
from agentctl.metrics import families as metric_families
from agentctl.metrics.exposition import Family
from agentctl.text import one_line
from agentctl.wire import session

EXAMPLES = """\
  agentctl metrics                           the text that Prometheus reads
  agentctl metrics | grep sessions           live sessions by agent and status
  agentctl metrics --json | jq '.families'   for a script
  curl http://127.0.0.1:9200/metrics         the same, while a daemon runs"""


def parser() -> Parser:
    made = Parser(
        "metrics",
        "Sessions by agent and status, launches, locks, fuses, deliveries, tokens and cost, in the text "
        "that Prometheus reads. A daemon that runs is asked, and adds what it has counted so far.",
        EXAMPLES,
    )
    add_json(made)
    made.add_argument("--no-daemon", action="store_true", help="look without asking the daemon")
    return made


def run(arguments: argparse.Namespace) -> int:
    counted = None if arguments.no_daemon else _of_the_daemon()
    families = collect.collect(os.environ) if counted is None else counted
    missing = metric_families.only_of_a_daemon() if counted is None else []
    if arguments.json:
        told = {"version": session.VERSION, "families": exposition.shapes(families), "missing": missing}
        print(json.dumps(told, indent=1))
        return 0
    sys.stdout.write(exposition.text(families))
    if missing:
        said = f"no daemon was asked; only a daemon counts these: {', '.join(missing)}"
        sys.stdout.write(exposition.comment(said))
    return 0


def _of_the_daemon() -> list[Family] | None:
    """None: none runs, or none that we can speak with, which is said."""
    if not start.allowed(os.environ):
        return None
    try:
        with rpc.connect(start.home_of(os.environ)) as client:
            told = client.call("metrics")
        return exposition.families(told["families"])
    except NoDaemon:
        return None
    except (Unreachable, Fault) as error:  # a daemon that knows no metrics is an older one
        print(f"agentctl: {one_line(str(error))}; looked without it", file=sys.stderr)
        return None
    except (KeyError, TypeError, ValueError, AttributeError):
        print("agentctl: the daemon's answer makes no sense here; looked without it", file=sys.stderr)
        return None
