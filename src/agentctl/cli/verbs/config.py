"""Show every setting and where it is set; write a settings file."""

from __future__ import annotations

import argparse
import json
import os

from agentctl import paths, text
from agentctl.cli.parser import Parser, add_json
from agentctl.config import settings as config
from agentctl.config.keys import KEYS, Key
from agentctl.config.settings import Config, Setting
from agentctl.durations import format_duration
from agentctl.errors import Refused
from agentctl.light_typing import Any
from agentctl.paths import home_directory
from agentctl.system.files import translate_error
from agentctl.system.permissions import make_private
from agentctl.view import table
from agentctl.view.table import Cell, Column
from agentctl.wire import state as wire

EXAMPLES = """\
  agentctl config                      every setting, and where it is set
  agentctl config init                 write a file, all settings in comments
  $EDITOR "$(agentctl config path)"    change a setting"""
LIST_EXAMPLES = """\
  agentctl config          the same, shorter
  agentctl config --json   for a script"""
INIT_EXAMPLES = """\
  agentctl config init           write it and print its path
  agentctl config init --force   replace an existing file"""
LAYOUT = (Column("SETTING", 24), Column("VALUE", 12), Column("FROM", 12, goes=1))


def parser() -> Parser:
    parser = Parser(
        "config",
        "Show every setting, and where it is set: in the settings file, in the environment, or nowhere "
        "(default). To change a setting, edit the file.",
        EXAMPLES,
        bare="list",
    )
    add_json(parser.add_command("list", "show every setting", LIST_EXAMPLES))
    init = parser.add_command("init", "write a settings file, all in comments", INIT_EXAMPLES)
    init.add_argument("--force", action="store_true", help="replace the file that exists")
    path = '  $EDITOR "$(agentctl config path)"    change a setting'
    parser.add_command("path", "print the path of the settings file", path)
    return parser


def run(arguments: argparse.Namespace) -> int:
    if arguments.command == "list":
        return _show(config.load(os.environ), as_json=arguments.json)
    file = paths.config_file(paths.require_state_directory(os.environ))
    if arguments.command == "init":
        _write(file, force=arguments.force)
    print(file)
    return 0


def _show(settings: Config, *, as_json: bool) -> int:
    rows = list(settings.list_settings())
    if as_json:
        plain = [(name, _hide_secret(setting.value, key), *setting[1:]) for name, setting, key in rows]
        print(json.dumps(wire.dump_settings(settings.file, plain), indent=1))
        return 0
    set_or_common = [row for row in rows if row[1].source != "default" or row[0] in KEYS]
    cells = [_cells(*row) for row in set_or_common]
    print("\n".join(table.render(LAYOUT, cells, text.terminal_columns(), colour=text.has_colour())))
    return 0


def _hide_secret(value: Any, key: Key[Any]) -> Any:
    """Return a value without its secrets."""
    if value is not None and key.secret:
        return "set"
    if value is not None and key.kind == "url":
        from agentctl.urls import redact_url

        return redact_url(value)
    return value


def _cells(name: str, setting: Setting[Any], key: Key[Any]) -> list[Cell]:
    place = setting.where or setting.source
    if setting.source == "file":
        place = text.shorten_home(place, home_directory(os.environ))
    return [
        Cell(text.clean_line(name)),
        Cell(
            text.clean_line(_value(_hide_secret(setting.value, key), key)),
            "bold" if setting.value else "dim",
        ),
        Cell(text.clean_line(place), "dim" if setting.source == "default" else ""),
    ]


def _value(value: Any, key: Key[Any]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not value and value != 0:
        return "-"
    if key.kind == "length":
        return format_duration(value)
    if key.kind == "size":
        return f"{value >> 20}M" if value % (1 << 20) == 0 else str(value)
    if key.kind in ("words", "events"):
        import shlex

        return shlex.join(value)
    return str(value)


def _write(file: str, *, force: bool) -> None:
    """Write the template, whole or not at all. A link is followed. Raises Refused if the file exists."""
    from agentctl.adapters.registry import find_adapters
    from agentctl.config.file import make_template

    if os.path.lexists(file) and not force:
        raise Refused(f"{file} exists already", "agentctl config init --force replaces it")
    target = os.path.realpath(file)
    temporary = f"{target}.{os.getpid()}"
    try:
        make_private(temporary)
        with open(temporary, "w", encoding="utf-8") as stream:
            stream.write(make_template([adapter.name for adapter in find_adapters()]))
        os.replace(temporary, target)
    except OSError as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise translate_error(error, file) from error
