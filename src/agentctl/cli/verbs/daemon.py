"""Start, stop and see the daemon; have it started with the machine."""

from __future__ import annotations

import argparse
import os

from agentctl.cli import attending, daemon_log
from agentctl.cli.parser import Parser, add_json, parse_count
from agentctl.errors import UsageError

EXAMPLES = """\
  agentctl daemon                    how it is: pid, memory, parts, last event
  agentctl daemon start              start it; nothing to do if it runs
  agentctl daemon start --foreground here, in this terminal; for supervisors
  agentctl daemon logs -f            what it says
  agentctl daemon restart            after an update of agentctl
  agentctl daemon install            start it with your login"""
DEEDS = ("status", "start", "stop", "restart", "logs", "install", "uninstall")
# Which options belong to which deed.
FIT = {
    "foreground": ("start",),
    "force": ("stop", "restart"),
    "follow": ("logs",),
    "n": ("logs",),
    "json": ("status",),
}


def parser() -> Parser:
    made = Parser(
        "daemon",
        "The daemon does what must happen while nobody looks: events, fuses, webhooks, metrics. It owns "
        "no agent and no truth; reading and launching never need it. Verbs that need it start it by "
        "themselves, unless AGENTCTL_NO_DAEMON=1.\n\n"
        "Exit codes: 3 where none runs (status, stop), 5 where one runs and cannot be spoken with, 4 "
        "where another one runs (start --foreground).",
        EXAMPLES,
    )
    made.add_argument("deed", nargs="?", metavar="DEED", help=f"one of: {', '.join(DEEDS)} (status)")
    made.add_argument("--foreground", action="store_true", help="start: do not detach")
    made.add_argument("--force", action="store_true", help="stop, restart: kill it if it does not end")
    made.add_argument("-f", "--follow", action="store_true", help="logs: and what comes next")
    made.add_argument("-n", type=parse_count, metavar="N", help="logs: the last N lines (50)")
    add_json(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    deed = arguments.deed or "status"
    if deed not in DEEDS:
        raise UsageError(f"daemon knows no {deed!r}", f"known: {', '.join(DEEDS)}")
    for option, deeds in FIT.items():
        if getattr(arguments, option) not in (None, False) and deed not in deeds:
            flag = f"-{option}" if len(option) == 1 else f"--{option}"
            raise UsageError(f"daemon {deed} takes no {flag}", "see: agentctl daemon --help")
    if deed == "status":
        return attending.show_status(os.environ, as_json=arguments.json)
    if deed == "start":
        return attending.start(os.environ, foreground=arguments.foreground)
    if deed in ("stop", "restart"):
        act = attending.stop if deed == "stop" else attending.restart
        return act(os.environ, force=arguments.force)
    if deed == "logs":
        return daemon_log.show(os.environ, arguments.n or 50, follow=arguments.follow)
    from agentctl.cli import installing

    act_on = installing.install if deed == "install" else installing.uninstall
    return act_on(os.environ)
