"""The JSON of `worktree`. docs/reference/json.md is generated from the table here."""

from __future__ import annotations

from agentctl.light_typing import Any
from agentctl.truth.model import Session, Worktree
from agentctl.wire.session import Fields

WORKTREE_FIELDS: Fields = (
    ("repository", "string", "its main worktree"),
    ("path", "string", "its folder"),
    ("branch", "string | null", "the branch that is checked out now; null: a detached HEAD"),
    ("made_for", "string", "the branch that it was made for"),
    ("base", "string", "the commit that it started at"),
    ("group", "string | null", "the group of its slot"),
    ("there", "boolean", "false: its folder was deleted, and git still lists it"),
    ("ahead", "integer | null", "commits since the base"),
    ("behind", "integer | null", "commits that only the main worktree has"),
    ("dirty", "integer | null", "files that are changed or new, and not committed"),
    ("merged", "boolean | null", "whether another branch has all its changes"),
    ("pushed", "boolean | null", "whether a remote has its branch in this state"),
    ("unknown", "string | null", "why the five above are null"),
    ("sessions", "array", "id, adapter, status, pid of sessions that run in it, or may"),
    ("result", "string | null", "`clean` only: removed, refused, kept, or would remove"),
    ("reason", "string | null", "`clean` only: why, or what happened to the branch"),
)


def dump_worktree(
    place: Worktree,
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
        "repository": place.repository,
        "path": place.path,
        "branch": branch,
        "made_for": place.branch,
        "base": place.base,
        "group": group,
        **state,
        "sessions": [_dump_session(session) for session in sessions],
        "result": result,
        "reason": reason,
    }


def _dump_session(session: Session) -> dict[str, Any]:
    owner = session.observation.owner
    return {
        "id": session.observation.session_id,
        "adapter": session.observation.adapter,
        "status": session.verdict.status,
        "pid": owner.pid if owner is not None else None,
    }
