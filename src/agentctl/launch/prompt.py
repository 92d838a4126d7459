"""One prompt out of what a person gives: text, a file or standard input, an issue, a spec, files."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Sequence
from typing import NamedTuple

from agentctl.errors import UsageError

MAX_FILE = 1 << 20  # bytes of one attached file, unless said otherwise
# Bytes of the prompt itself: more than any model reads. A device such as /dev/zero never ends.
MAX_PROMPT = 16 << 20
PATIENCE = 5.0  # seconds until the first word comes through a pipe
TOO_LONG = "a prompt is text for a model; name large files in it instead"
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Sources(NamedTuple):
    text: str | None = None
    file: str | None = None
    stdin: bool = False
    issue: str | None = None  # its text already
    spec: str | None = None
    files: Sequence[str] = ()
    max_file: int = MAX_FILE


def composed(sources: Sources) -> str:
    """Raises UsageError: for none, for two that exclude each other, for what no agent can be told."""
    parts = [sources.issue, _main(sources)]
    if sources.spec is not None:
        parts.append(_attached("Spec", sources.spec, sources.max_file))
    parts += [_attached("File", path, sources.max_file) for path in sources.files]
    prompt = "\n\n".join(part for part in parts if part)
    if not prompt.strip():
        raise UsageError("no prompt", 'give one: -p TEXT, --prompt-file FILE, or "-" for standard input')
    if "\0" in prompt:
        raise UsageError("the prompt holds a NUL character, which no agent can be told")
    if any("\ud800" <= character <= "\udfff" for character in prompt):
        raise UsageError("the prompt is not UTF-8 text")
    return prompt


def size(text: str) -> int:
    """`4096`, `64K`, `2M`."""
    number, unit = (text[:-1], SIZES[text[-1:].upper()]) if text[-1:].upper() in SIZES else (text, 1)
    if not (number.isascii() and number.isdigit() and len(number) < 12):
        raise UsageError(f"not a size: {text!r}", "examples: 4096, 64K, 2M")
    return int(number) * unit


def _main(sources: Sources) -> str | None:
    given = [sources.text is not None, sources.file is not None, sources.stdin]
    if sum(given) > 1:
        raise UsageError("more than one prompt", "one of -p TEXT, --prompt-file FILE and - is enough")
    if sources.file is not None:
        return _read(sources.file, MAX_PROMPT, TOO_LONG)
    if sources.stdin and sys.stdin is not None:
        data = sys.stdin.buffer.read(MAX_PROMPT + 1)
        return _text(_bounded(data, "standard input", MAX_PROMPT, TOO_LONG), "standard input")
    return sources.text


def _attached(kind: str, path: str, limit: int) -> str:
    body = _read(path, limit, "--max-file-size 2M allows more")
    fence = "```"
    while fence in body:  # the file has fences of its own
        fence += "`"
    return f"{kind}: {path}\n{fence}\n{body.rstrip()}\n{fence}"


def _read(path: str, limit: int, hint: str) -> str:
    try:
        # or a FIFO that nobody writes to would hold us here for ever
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            _await_writer(file.fileno(), path)
            data = file.read(limit + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"no path: {path!r}: {error}") from error
    return _text(_bounded(data, path, limit, hint), path)


def _bounded(data: bytes, where: str, limit: int, hint: str) -> bytes:
    if len(data) > limit:
        raise UsageError(f"{where} is larger than {limit} bytes", hint)
    return data


def _await_writer(fd: int, path: str) -> None:
    """Pipes are welcome: `--file <(git diff)`."""
    if stat.S_ISFIFO(os.fstat(fd).st_mode) and not select.select([fd], [], [], PATIENCE)[0]:
        raise UsageError(f"nothing came from {path} within {PATIENCE:g} s", "it is a pipe: who writes?")
    os.set_blocking(fd, True)


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{where} is not UTF-8 text (byte {error.start})") from error
