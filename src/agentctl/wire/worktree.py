"""The JSON of `worktree`. docs/reference/json.md is generated from the table here."""

from __future__ import annotations

from typing import Any

from agentctl.truth.model import Session, Worktree

WORKTREE_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("repository", "string", "its main checkout"),
    ("path", "string", "its folder"),
    ("branch", "string | null", "what is checked out there now; null: a detached HEAD"),
    ("made_for", "string", "the branch it was made for"),
    ("base", "string", "the commit it began at"),
    ("group", "string | null", "the group of its slot"),
    ("there", "boolean", "false: its folder was deleted, git still lists it"),
    ("ahead", "integer | null", "commits since the base"),
    ("behind", "integer | null", "commits that the main checkout has and it has not"),
    ("dirty", "integer | null", "files changed or new, not committed"),
    ("merged", "boolean | null", "whether all it changes is in another branch"),
    ("pushed", "boolean | null", "whether a remote has its branch as it is"),
    ("unknown", "string | null", "why the five above are null"),
    ("sessions", "array", "id, adapter, status, pid of those that run in it now, or may"),
    ("result", "string | null", "`clean` only: removed, refused, kept, or would remove"),
    ("reason", "string | null", "`clean` only: why, or what became of the branch"),
)


def worktree(
    made: Worktree,
    *,
    branch: str | None,
    group: str | None,
    state: dict[str, Any],
    sessions: tuple[Session, ...],
    result: str | None = None,
    reason: str | None = None,
) -> dict[str, Any]:
    """`state`: there, ahead, behind, dirty, merged, pushed, unknown."""
    return {
        "repository": made.repository,
        "path": made.path,
        "branch": branch,
        "made_for": made.branch,
        "base": made.base,
        "group": group,
        **state,
        "sessions": [session(one) for one in sessions],
        "result": result,
        "reason": reason,
    }


def session(given: Session) -> dict[str, Any]:
    owner = given.seen.owner
    return {
        "id": given.seen.session_id,
        "adapter": given.seen.adapter,
        "status": given.verdict.status,
        "pid": owner.pid if owner is not None else None,
    }
