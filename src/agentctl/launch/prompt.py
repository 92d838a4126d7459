"""Compose one prompt from its sources: text, a file or standard input, a GitHub issue, a specification,
files to attach."""

from __future__ import annotations

import json
import os
import select
import stat
import sys

from agentctl.errors import AgentctlError, StartFailed, TimedOut, UsageError
from agentctl.launch.program import find_program
from agentctl.light_typing import TYPE_CHECKING, Mapping, NamedTuple, Sequence

if TYPE_CHECKING:
    from agentctl.process.limited import CommandResult

MAX_FILE = 1 << 20  # bytes of one attached file, unless set otherwise
# Bytes of the prompt itself: more than any model reads. A device such as /dev/zero never ends.
MAX_PROMPT = 16 << 20
PATIENCE = 5.0  # seconds until the first bytes come through a pipe
TOO_LONG = "a prompt is text for a model; name large files in it instead"
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
GH_LIMIT = 30.0  # seconds


class PromptSources(NamedTuple):
    text: str | None = None
    file: str | None = None
    stdin: bool = False
    spec: str | None = None
    files: Sequence[str] = ()
    max_file: int = MAX_FILE


def compose_prompt(sources: PromptSources, issue: str | None = None) -> str:
    """Return the prompt, with the issue's text first. Raises UsageError if there is no prompt, more than
    one, or one that no agent can take."""
    parts = [issue, _main_text(sources)]
    if sources.spec is not None:
        parts.append(_attach("Spec", sources.spec, sources.max_file))
    parts += [_attach("File", path, sources.max_file) for path in sources.files]
    prompt = "\n\n".join(part for part in parts if part)
    if not prompt.strip():
        raise UsageError("no prompt", 'give one: -p TEXT, --prompt-file FILE, or "-" for standard input')
    if "\0" in prompt:
        raise UsageError("the prompt contains a NUL character, which no agent accepts")
    if any("\ud800" <= character <= "\udfff" for character in prompt):
        raise UsageError("the prompt is not UTF-8 text")
    return prompt


def parse_size(text: str) -> int:
    """Return the bytes of `4096`, `64K` or `2M`. Raises UsageError."""
    number, unit = (text[:-1], SIZES[text[-1:].upper()]) if text[-1:].upper() in SIZES else (text, 1)
    if not (number.isascii() and number.isdigit() and len(number) < 12):
        raise UsageError(f"not a size: {text!r}", "examples: 4096, 64K, 2M")
    return int(number) * unit


def _main_text(sources: PromptSources) -> str | None:
    if sum([sources.text is not None, sources.file is not None, sources.stdin]) > 1:
        raise UsageError("more than one prompt", "give one of -p TEXT, --prompt-file FILE and -")
    if sources.file is not None:
        return _read(sources.file, MAX_PROMPT, TOO_LONG)
    if sources.stdin and sys.stdin is not None:
        data = sys.stdin.buffer.read(MAX_PROMPT + 1)
        return _decode(data, "standard input", MAX_PROMPT, TOO_LONG)
    return sources.text


def _attach(kind: str, path: str, limit: int) -> str:
    body = _read(path, limit, "--max-file-size 2M allows more")
    fence = "```"
    while fence in body:  # the file has fences of its own
        fence += "`"
    return f"{kind}: {path}\n{fence}\n{body.rstrip()}\n{fence}"


def _read(path: str, limit: int, hint: str) -> str:
    try:
        # O_NONBLOCK: opening a FIFO without a writer would block for ever
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            _await_writer(file.fileno(), path)
            data = file.read(limit + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"not a path: {path!r}: {error}") from error
    return _decode(data, path, limit, hint)


def _await_writer(fd: int, path: str) -> None:
    """Wait for the first bytes of a pipe, as in `--file <(git diff)`. Raises UsageError."""
    if stat.S_ISFIFO(os.fstat(fd).st_mode) and not select.select([fd], [], [], PATIENCE)[0]:
        raise UsageError(
            f"nothing came from {path} within {PATIENCE:g} s",
            "it is a pipe: check the program that writes",
        )
    os.set_blocking(fd, True)


def _decode(data: bytes, source: str, limit: int, hint: str) -> str:
    if len(data) > limit:
        raise UsageError(f"{source} is larger than {limit} bytes", hint)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not UTF-8 text (byte {error.start})") from error


def read_issue(number: str, repository: str | None, cwd: str, environ: Mapping[str, str]) -> str:
    """Return a GitHub issue as text, read with the user's own `gh`. Raises UsageError for a number that
    is none, AgentctlError with the output of gh."""
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"not an issue number: {number!r}", "example: --issue 42 --repo owner/name")
    try:
        gh = find_program("gh", environ, cwd)
    except StartFailed as error:
        raise AgentctlError(f"--issue needs GitHub's gh: {error}", error.hint) from error
    options = ["--repo", repository] if repository else []
    command = [gh, "issue", "view", number, *options, "--json", "number,title,body,url"]
    result = _run_gh(command, cwd, environ)
    if result.code != 0:
        output = result.err.decode(errors="replace").strip()
        raise AgentctlError(f"gh cannot show issue {number}: {output or f'exit code {result.code}'}")
    try:
        issue = json.loads(result.out)
        heading = f"Issue #{issue['number']}: {issue['title']}\n{issue['url']}"
        return f"{heading}\n\n{issue['body'] or ''}".strip()
    except (ValueError, KeyError, TypeError) as error:
        raise AgentctlError(f"cannot read the answer of gh about issue {number}: {error}") from error


def _run_gh(command: list[str], cwd: str, environ: Mapping[str, str]) -> CommandResult:
    """Run gh without our standard input: the prompt may come from there, and gh asks questions."""
    from agentctl.process.limited import run_command

    try:
        return run_command(command, cwd, environ, GH_LIMIT)
    except TimedOut as error:
        raise AgentctlError(f"gh did not answer within {GH_LIMIT:g} s") from error
    except OSError as error:
        raise AgentctlError(f"cannot run gh: {error}") from error
