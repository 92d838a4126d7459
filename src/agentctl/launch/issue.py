"""A GitHub issue as the beginning of a prompt, through `gh`, which has the person's own login."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping

from agentctl.errors import AgentctlError, StartFailed, UsageError
from agentctl.launch.program import resolved

LIMIT = 30.0  # seconds


def text(number: str, repository: str | None, cwd: str, environ: Mapping[str, str]) -> str:
    """Raises UsageError for a number that is none, AgentctlError with gh's own words."""
    if not (number.isascii() and number.isdigit()):
        raise UsageError(
            f"not the number of an issue: {number!r}", "example: --issue 42 --repo owner/name"
        )
    try:
        gh = resolved("gh", environ, cwd)
    except StartFailed as error:
        raise AgentctlError(f"--issue needs GitHub's gh, and {error}", error.hint) from error
    where = ["--repo", repository] if repository else []
    done = _run([gh, "issue", "view", number, *where, "--json", "number,title,body,url"], cwd, environ)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise AgentctlError(f"gh cannot show issue {number}: {said or f'exit code {done.returncode}'}")
    return _told(done.stdout, number)


def _run(command: list[str], cwd: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Without our standard input: the prompt may come from there, and gh asks questions if it can."""
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AgentctlError(f"gh gave no answer within {LIMIT:g} s") from error
    except OSError as error:
        raise AgentctlError(f"gh cannot be run: {error}") from error


def _told(answer: bytes, number: str) -> str:
    try:
        issue = json.loads(answer)
        heading = f"Issue #{issue['number']}: {issue['title']}\n{issue['url']}"
        return f"{heading}\n\n{issue['body'] or ''}".strip()
    except (ValueError, KeyError, TypeError) as error:
        raise AgentctlError(f"gh's answer about issue {number} makes no sense: {error}") from error
