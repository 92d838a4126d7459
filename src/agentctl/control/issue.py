"""A GitHub issue as the beginning of a prompt, through `gh`, which has the person's own login."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping

from agentctl.control.binary import resolved
from agentctl.errors import AgentctlError, StartFailed, UsageError

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
    command = [gh, "issue", "view", number, *where, "--json", "number,title,body,url"]
    try:
        done = subprocess.run(
            command, cwd=cwd, env=dict(environ), capture_output=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise AgentctlError(f"gh gave no answer within {LIMIT:g} s") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise AgentctlError(f"gh cannot show issue {number}: {said or f'exit code {done.returncode}'}")
    return _told(done.stdout, number)


def _told(answer: bytes, number: str) -> str:
    try:
        issue = json.loads(answer)
        return f"Issue #{issue['number']}: {issue['title']}\n{issue['url']}\n\n{issue['body']}".strip()
    except (ValueError, KeyError, TypeError) as error:
        raise AgentctlError(f"gh's answer about issue {number} makes no sense: {error}") from error
