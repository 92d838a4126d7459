"""`agentctl metrics`: numbers for Prometheus."""

from __future__ import annotations

import argparse
import json
import os
import sys

from agentctl.cli.parser import Parser, add_json, warn
from agentctl.daemon_client import client as rpc
from agentctl.daemon_client import start
from agentctl.errors import Fault, NoDaemon, Unreachable
from agentctl.metrics import collect, exposition
from agentctl.metrics import families as metric_families
from agentctl.metrics.exposition import Family
from agentctl.wire import session

EXAMPLES = """\
  agentctl metrics                           the text that Prometheus reads
  agentctl metrics | grep sessions           live sessions by agent and status
  agentctl metrics --json | jq '.families'   for a script
  curl http://127.0.0.1:9200/metrics         from the daemon, while it runs"""


def parser() -> Parser:
    parser = Parser(
        "metrics",
        "Show sessions by agent and status, launches, locks, fuses, deliveries, tokens and cost, in the "
        "text format of Prometheus. If a daemon runs, it answers, and adds what it has counted.",
        EXAMPLES,
    )
    add_json(parser)
    parser.add_argument("--no-daemon", action="store_true", help="look without asking the daemon")
    return parser


def run(arguments: argparse.Namespace) -> int:
    from_daemon = None if arguments.no_daemon else _ask_daemon()
    families = collect.collect(os.environ) if from_daemon is None else from_daemon
    missing = metric_families.daemon_only_names() if from_daemon is None else []
    if arguments.json:
        shape = {
            "version": session.VERSION,
            "families": exposition.families_json(families),
            "missing": missing,
        }
        print(json.dumps(shape, indent=1))
        return 0
    sys.stdout.write(exposition.render_text(families))
    if missing:
        note = f"no daemon was asked; only a daemon counts these: {', '.join(missing)}"
        sys.stdout.write(exposition.render_comment(note))
    return 0


def _ask_daemon() -> list[Family] | None:
    """Return None if no daemon runs. If it cannot answer, show a warning and return None."""
    if not start.may_start(os.environ):
        return None
    try:
        with rpc.connect(start.find_home(os.environ)) as client:
            response = client.call("metrics")
        return exposition.parse_families(response["families"])
    except NoDaemon:
        return None
    except (Unreachable, Fault) as error:  # an older daemon has no metrics
        warn(f"{error}; looked without the daemon")
    except (KeyError, TypeError, ValueError, AttributeError):
        warn("the daemon's answer cannot be understood; looked without the daemon")
    return None
