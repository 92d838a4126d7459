"""Every setting, what it is, and who said so."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from typing import Any

from agentctl import paths, text
from agentctl.cli.parser import Parser, add_json
from agentctl.config import settings as config
from agentctl.config.keys import ADAPTER_KEYS, KEYS, NOTIFY_KEYS, WEBHOOK_KEYS
from agentctl.config.settings import Config, Setting
from agentctl.config.values import Key
from agentctl.durations import written
from agentctl.errors import Refused, Unreachable, UsageError
from agentctl.paths import home
from agentctl.system.files import translated
from agentctl.system.private import make_private
from agentctl.view import table
from agentctl.view.table import Cell, Column
from agentctl.wire import state_shapes

EXAMPLES = """\
  agentctl config          what holds, and where each value came from
  agentctl config init     write a file with every setting in comments
  agentctl config path     where that file is
  $EDITOR "$(agentctl config path)" """
LAYOUT = (Column("SETTING", 24), Column("VALUE", 12), Column("FROM", 12, goes=1))
DEEDS = ("init", "path")


def parser() -> Parser:
    made = Parser("config", "Every setting, and where its value came from.", EXAMPLES.rstrip())
    made.add_argument("deed", nargs="?", metavar="init|path", help="write a commented file; tell where")
    made.add_argument("--force", action="store_true", help="init: over the file that is there")
    add_json(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    if arguments.deed not in (None, *DEEDS):
        raise UsageError(
            f"config knows no {arguments.deed!r}",
            'known: init, path; to change a setting: $EDITOR "$(agentctl config path)"',
        )
    if arguments.force and arguments.deed != "init":
        raise UsageError("--force is for config init")
    if arguments.json and arguments.deed is not None:
        raise UsageError(
            f"config {arguments.deed} has no --json", "agentctl config --json tells the file"
        )
    if arguments.deed is None:
        return _show(config.load(os.environ), as_json=arguments.json)
    state = paths.state_directory(os.environ)
    if state is None:
        raise Unreachable("no home is known to keep settings in", "set AGENTCTL_HOME")
    file = paths.config_file(state)
    if arguments.deed == "init":
        _write(file, force=arguments.force)
    print(file)
    return 0


def _show(settings: Config, *, as_json: bool) -> int:
    rows = list(_all(settings))
    if as_json:
        plain = [(name, _told(setting.value, key), *setting[1:]) for name, setting, key in rows]
        print(json.dumps(state_shapes.settings(settings.file, plain), indent=1))
        return 0
    shown = [row for row in rows if row[1].source != "default" or row[0] in KEYS]
    cells = [_cells(*row) for row in shown]
    print("\n".join(table.render(LAYOUT, cells, text.columns(), colour=text.coloured())))
    return 0


def _all(settings: Config) -> Iterator[tuple[str, Setting[Any], Key]]:
    common = {
        **{f"defaults.{name}": value for name, value in settings.defaults._asdict().items()},
        "launches.ttl": settings.ttl,
        "launches.settle": settings.settle,
        "worktrees.directory": settings.worktrees,
        "fuses.on_launch": settings.fuses_on_launch,
        "daemon.auto": settings.daemon_auto,
        "journal.keep": settings.journal_keep,
        "journal.max_size": settings.journal_max_size,
        **{f"metrics.{name}": value for name, value in settings.metrics._asdict().items()},
    }
    for name, key in KEYS.items():
        yield name, common[name], key
    for adapter, agent in settings.agents.items():
        for name, key in ADAPTER_KEYS.items():
            yield f"adapters.{adapter}.{name}", getattr(agent, name), key
    for hook in settings.webhooks.values():
        for name, key in WEBHOOK_KEYS.items():
            yield f"webhooks.{hook.name}.{name}", getattr(hook, name), key
    for target in settings.notify.values():
        for name, key in NOTIFY_KEYS.items():
            yield f"notify.{target.name}.{name}", getattr(target, name), key


def _told(value: Any, key: Key) -> Any:
    """Without what is nobody's business."""
    if value is not None and key.secret:
        return "set"
    if value is not None and key.kind == "url":
        from agentctl.urls import shown

        return shown(value)
    return value


def _cells(name: str, setting: Setting[Any], key: Key) -> list[Cell]:
    told = setting.where or setting.source
    place = text.tilde(told, home(os.environ)) if setting.source == "file" else told
    return [
        Cell(text.one_line(name)),
        Cell(text.one_line(_value(_told(setting.value, key), key)), "bold" if setting.value else "dim"),
        Cell(text.one_line(place), "dim" if setting.source == "default" else ""),
    ]


def _value(value: Any, key: Key) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not value and value != 0:
        return "-"
    if key.kind == "length":
        return written(value)
    if key.kind == "size":
        return f"{value >> 20}M" if value % (1 << 20) == 0 else str(value)
    if key.kind in ("words", "events"):
        import shlex

        return shlex.join(value)
    return str(value)


def _write(file: str, *, force: bool) -> None:
    """Whole or not at all; where it is a link, as dotfiles are, what it leads to."""
    from agentctl.adapters.registry import registered
    from agentctl.config.file import template

    if os.path.lexists(file) and not force:
        raise Refused(f"{file} is there already", "agentctl config init --force writes over it")
    target = os.path.realpath(file)
    fresh = f"{target}.{os.getpid()}"
    try:
        make_private(fresh)
        with open(fresh, "w", encoding="utf-8") as stream:
            stream.write(template([known.name for known in registered()]))
        os.replace(fresh, target)
    except OSError as error:
        if os.path.exists(fresh):
            os.unlink(fresh)
        raise translated(error, file) from error
