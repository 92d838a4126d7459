"""Do something to a session or a directory after a while, unless somebody says otherwise."""

from __future__ import annotations

import argparse

from agentctl.cli.parser import Parser, add_json
from agentctl.durations import seconds
from agentctl.errors import UsageError

EXAMPLES = """\
  agentctl fuse set 4f2a --in 2h --stop     end that session in two hours
  agentctl fuse set . --in 10m --run 'docker compose down'
                                            unless an agent is launched here
  agentctl fuse set . --in 1h --emit review.late --webhook https://example.org/x
  agentctl fuse                             what burns, and for how long
  agentctl fuse extend . --by 10m           give it more time
  agentctl fuse extend 4f2a --in 30m        also the --timeout of a launch
  agentctl fuse cancel 3c9e                 any unambiguous prefix of an id"""
DEEDS = ("list", "set", "extend", "cancel")
# Which options belong to which deeds, by their names in the namespace.
FIT = {
    "within": ("set", "extend"),
    "by": ("extend",),
    "stop": ("set",),
    "run": ("set",),
    "emit": ("set",),
    "webhook": ("set",),
    "label": ("set",),
    "no_daemon": ("set", "extend"),
    "all": ("list", "cancel"),
}


def parser() -> Parser:
    made = Parser(
        "fuse",
        "Light a fuse on a session or on a directory: when its time is over it stops what runs there, "
        "runs a command, emits an event or calls a webhook. A word with a slash, . or the name of a "
        "directory that is there means a directory; anything else an id. A launch in the directory "
        "cancels its fuses, unless fuses.on_launch says keep. The daemon burns them down, and is "
        "started for that.",
        EXAMPLES,
    )
    made.add_argument(
        "words",
        nargs="*",
        metavar="DIR|SESSION|ID",
        help="set DIR or SESSION; extend or cancel either, or ID; or list (the default)",
    )
    made.add_argument(
        "--in", dest="within", type=seconds, metavar="TIME", help="set, extend: when, from now (10m)"
    )
    made.add_argument("--by", type=seconds, metavar="TIME", help="extend: how much longer")
    made.add_argument("--stop", action="store_true", help="set: end the session, or all that are there")
    made.add_argument(
        "--run", metavar="CMD", help="set: run a shell command there, for 5 minutes at most"
    )
    made.add_argument("--emit", metavar="NAME", help="set: an event of the type user.NAME")
    made.add_argument(
        "--webhook",
        metavar="URL|NAME",
        help="set: POST what came of it, until it is taken; NAME is of [webhooks.NAME] in the settings",
    )
    made.add_argument("--label", metavar="TEXT", help="set: what it is for")
    made.add_argument(
        "--all",
        action="store_true",
        help="list: also those of the last week that burn no more; cancel: all that are meant",
    )
    made.add_argument(
        "--no-daemon",
        action="store_true",
        help="set, extend: start no daemon (also $AGENTCTL_NO_DAEMON=1); it burns when one runs",
    )
    add_json(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    from agentctl.cli import fusing

    deed, what = _meant(arguments.words)
    for name, deeds in FIT.items():
        if getattr(arguments, name) not in (None, False) and deed not in deeds:
            flag = {"within": "in", "no_daemon": "no-daemon"}.get(name, name)
            raise UsageError(f"fuse {deed} takes no --{flag}", "see: agentctl fuse --help")
    if deed == "list":
        return fusing.show(settled=arguments.all, as_json=arguments.json)
    if deed == "cancel":
        return _cancel(what, several=arguments.all, as_json=arguments.json)
    return (_extend if deed == "extend" else _set)(what, arguments)


def _set(what: str, arguments: argparse.Namespace) -> int:
    from agentctl.cli import fusing

    if arguments.within is None:
        raise UsageError("when?", "example: --in 10m")
    to_do = fusing.actions(
        stop=arguments.stop, run=arguments.run, emit=arguments.emit, webhook=arguments.webhook
    )
    made = fusing.light(what, arguments.within, to_do, arguments.label)
    fusing.tell([made], "set", as_json=arguments.json)
    return fusing.attend(no_daemon=arguments.no_daemon)


def _extend(what: str, arguments: argparse.Namespace) -> int:
    from agentctl.cli import fusing
    from agentctl.state import fuses

    if (arguments.within is None) == (arguments.by is None):
        raise UsageError("by how much?", "one of: --by 10m, --in 10m (from now)")
    (found,) = fusing.matching(what)
    anew = arguments.within is not None
    given = arguments.within if anew else arguments.by
    done = fuses.extend(fusing.notes(), found.id, given, anew=anew)
    fusing.tell([done], "extended", as_json=arguments.json)
    if done.launch_id is not None and done.due_at >= found.due_at:
        return 0  # its shim sees to it
    return fusing.attend(no_daemon=arguments.no_daemon)


def _cancel(what: str, *, several: bool, as_json: bool) -> int:
    from agentctl.cli import fusing
    from agentctl.state import fuses

    found = fusing.matching(what, several=several)
    done = [fuses.cancel(fusing.notes(), each.id, "cancelled by a person") for each in found]
    fusing.tell(done, "cancelled", as_json=as_json)
    return 0


def _meant(given: list[str]) -> tuple[str, str]:
    """What to do, and to what."""
    deed, rest = (given[0], given[1:]) if given else ("list", [])
    if deed not in DEEDS:
        raise UsageError(
            f"fuse knows no {deed!r}", f"known: {', '.join(DEEDS)}; agentctl fuse set {deed}"
        )
    if deed == "list":
        if rest:
            raise UsageError(f"fuse list takes no {rest[0]!r}", "see: agentctl fuse --help")
        return deed, ""
    if not rest:
        raise UsageError(f"{deed} what?", f"example: agentctl fuse {deed} .")
    if len(rest) > 1:
        raise UsageError(f"one at a time: {' '.join(rest)}", "see: agentctl fuse --help")
    return deed, rest[0]
