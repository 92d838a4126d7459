"""A matrix file: what to ask, and which agents and models to ask.

    prompt: Make the tests pass.
    cwd: ~/project
    on_complete: make test
    matrix:
      - adapter: claude-code
        models: [opus, sonnet]
      - adapter: codex
        branch: try/{slot}

Paths in it are relative to the file. Every mistake is told with its line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from agentctl.durations import seconds
from agentctl.errors import SourceError, UsageError
from agentctl.launch.slots import MOST, Slot, fill, slots, slots_of_pairs
from agentctl.launch.yaml_file import SIZE, Entry, parse
from agentctl.system import files

__all__ = ["Plan", "Slot", "read", "slots", "slots_of_pairs"]

TEXTS = ("prompt", "name", "group", "on_create", "on_complete", "permission_mode", "base_branch")
PATHS = ("prompt_file", "cwd", "spec")
KEYS = (*TEXTS, *PATHS, "branch", "timeout", "env", "meta", "files", "matrix")
ENTRY_TEXTS = ("adapter", "model", "name", "prompt", "permission_mode")
ENTRY_KEYS = (*ENTRY_TEXTS, "models", "prompt_file", "branch", "args", "env")


class Plan(NamedTuple):
    """What the file says; None, and nothing in a list: it says nothing."""

    slots: tuple[Slot, ...]  # as written; `slots()` gives each its name and branch
    prompt: str | None = None
    prompt_file: str | None = None
    cwd: str | None = None
    spec: str | None = None
    name: str | None = None
    group: str | None = None
    on_create: str | None = None
    on_complete: str | None = None
    timeout: float | None = None
    permission_mode: str | None = None
    base_branch: str | None = None
    branch: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    meta: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()


def read(path: str) -> Plan:
    """Raises UsageError with the line, SourceError, MissingExtra."""
    top = parse(path, _text(path))
    found = top.known_pairs("a matrix file", KEYS)
    where = os.path.dirname(os.path.abspath(path))
    if "matrix" not in found:
        raise top.wrong("no `matrix`", "it is the list of agents to launch")
    if "prompt" in found and "prompt_file" in found:
        raise found["prompt_file"].wrong("both prompt and prompt_file", "one of them is enough")
    return Plan(
        _slots(found["matrix"], where),
        **{key: found[key].text(key) for key in TEXTS if key in found},
        **{key: _path(found[key].text(key), where) for key in PATHS if key in found},
        branch=_template(found),
        timeout=found["timeout"].checked(seconds, "timeout") if "timeout" in found else None,
        env=_environment(found),
        meta=found["meta"].texts_by_name("meta") if "meta" in found else (),
        files=tuple(_path(name, where) for name in found["files"].texts("files"))
        if "files" in found
        else (),
    )


def _slots(entry: Entry, where: str) -> tuple[Slot, ...]:
    items = entry.items("matrix")
    if not items:
        raise entry.wrong("matrix is empty", "name at least one adapter")
    found: list[Slot] = []
    for item in items:
        # before any is made: with aliases, a small file can name millions
        if len(found) + _count(item) > MOST:
            raise item.wrong(
                f"more than {MOST} slots", "each entry makes one slot per model; split the file"
            )
        found += _of_entry(item, where)
    return tuple(found)


def _count(item: Entry) -> int:
    """How many slots it is going to be, if it is well-formed."""
    models = item.pairs("an entry of matrix").get("models")
    return models.count() if models is not None else 1


def _of_entry(item: Entry, where: str) -> list[Slot]:
    """One for each of its models."""
    found = item.known_pairs("an entry of matrix", ENTRY_KEYS)
    if "adapter" not in found:
        raise item.wrong("an entry of matrix without `adapter`", "example: {adapter: codex}")
    if "model" in found and "models" in found:
        raise found["models"].wrong("both model and models", "one of them is enough")
    if "prompt" in found and "prompt_file" in found:
        raise found["prompt_file"].wrong("both prompt and prompt_file", "one of them is enough")
    texts: dict[str, str] = {key: found[key].text(key) for key in ENTRY_TEXTS if key in found}
    if "prompt_file" in found:
        texts["prompt"] = _prompt(found["prompt_file"], where)
    models = _models(found)
    slot = Slot(
        **texts,
        branch=_template(found),
        args=found["args"].texts("args") if "args" in found else (),
        env=_environment(found),
    )
    if models is None:
        return [slot]
    name = slot.name
    return [
        slot._replace(model=model, name=f"{name}-{model}" if name and len(models) > 1 else name)
        for model in models
    ]


def _models(found: Mapping[str, Entry]) -> tuple[str, ...] | None:
    if "models" not in found:
        return None
    models = found["models"].texts("models")
    if not models:
        raise found["models"].wrong("models is empty", "leave it out for the agent's own default")
    return models


def _template(found: Mapping[str, Entry]) -> str | None:
    if "branch" not in found:
        return None
    found["branch"].checked(lambda text: fill(text, Slot(), "x"), "branch")
    return found["branch"].text("branch")


def _environment(found: Mapping[str, Entry]) -> tuple[tuple[str, str], ...]:
    if "env" not in found:
        return ()
    for name, entry in found["env"].pairs("env").items():
        if not name or "=" in name:
            raise entry.wrong(f"not a name for a variable: {name!r}")
    return found["env"].texts_by_name("env")


def _prompt(entry: Entry, where: str) -> str:
    path = _path(entry.text("prompt_file"), where)
    try:
        return _text(path)
    except SourceError as error:
        raise entry.wrong(f"prompt_file: {error}") from error


def _path(given: str, where: str) -> str:
    return os.path.normpath(os.path.join(where, os.path.expanduser(given)))


def _text(path: str) -> str:
    """Raises SourceError, UsageError."""
    raw = files.whole(path, SIZE).data
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from error
