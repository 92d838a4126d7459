"""The text of a notification: a title, a few words, a priority. Text of agents is made harmless: it moves
no cursor and hides nothing, wherever it is shown."""

from __future__ import annotations

import unicodedata

from agentctl.light_typing import Any, Literal, Mapping, NamedTuple
from agentctl.truth.event import Event
from agentctl.wire import webhook

Word = Literal["waiting", "finished", "failed"]
TITLE, TEXT = 100, 400  # characters: a telephone shows them, too
FAILED = ("failed", "killed")
_SAYS: Mapping[Word, str] = {
    "waiting": "waits for you",
    "finished": "has finished",
    "failed": "has failed",
}
# The words of ntfy.
PRIORITIES: Mapping[Word, str] = {"waiting": "high", "finished": "default", "failed": "high"}
TAGS: Mapping[Word, str] = {"waiting": "raised_hand", "finished": "white_check_mark", "failed": "x"}

# The environment variables of a command; empty: unknown, or does not apply. A test compares
# docs/notifications.md. AGENTCTL_LAUNCH_ID is not among them: it marks the processes of a launch.
VARIABLES: Mapping[str, str] = {
    "AGENTCTL_ON": "waiting, finished or failed",
    "AGENTCTL_TITLE": "the title, as on a desktop",
    "AGENTCTL_TEXT": "the text, of one or two lines",
    "AGENTCTL_EVENT": "the type of the event: session.waiting or session.stopped",
    "AGENTCTL_SEQ": "its number in the journal",
    "AGENTCTL_SESSION_ID": "the session",
    "AGENTCTL_ADAPTER": "which agent",
    "AGENTCTL_CWD": "its directory",
    "AGENTCTL_MODEL": "its model",
    "AGENTCTL_NAME": "the name of its launch",
    "AGENTCTL_GROUP": "the group of its launch",
    "AGENTCTL_WAITING_FOR": "permission, question or startup",
    "AGENTCTL_OUTCOME": "completed, failed, interrupted, killed or unknown",
    "AGENTCTL_EXIT_CODE": "exit code, or minus the signal",
}


class Notice(NamedTuple):
    word: Word
    title: str
    text: str
    facts: Mapping[str, str]


def make_notice(event: Event) -> Notice:
    payload = webhook.make_payload(event, "")
    session: Mapping[str, Any] = event.body.get("session") or {}
    word = notice_kind(event)
    title = plain_line(
        f"{event.adapter or 'an agent'} {_SAYS[word]}{_describe_place(payload['cwd'])}", TITLE
    )
    about = plain_line(
        str(payload["name"] or payload["title"] or session.get("prompt") or ""), TEXT // 2
    )
    text = plain_line(payload["summary"], TEXT // 2)
    if about and about not in text:
        text += f"\n{about}"
    return Notice(word, title, text, _make_variables(event, word, title, text, payload))


def test_notice() -> Notice:
    title, text = "agentctl", "This is a test: agentctl can reach you."
    facts = {**dict.fromkeys(VARIABLES, ""), "AGENTCTL_ON": "waiting"}
    return Notice("waiting", title, text, {**facts, "AGENTCTL_TITLE": title, "AGENTCTL_TEXT": text})


def notice_kind(event: Event) -> Word:
    if event.type == "session.waiting":
        return "waiting"
    outcome = (event.body.get("session") or {}).get("outcome")
    return "failed" if outcome in FAILED else "finished"


def plain_line(text: str, most: int) -> str:
    """Return one line of at most that many characters, without control and format characters: some of
    them reverse the text after them."""
    plain = "".join(" " if c.isspace() else c for c in text if c.isspace() or _is_visible(c))
    folded = " ".join(plain.split())
    return folded if len(folded) <= most else folded[: most - 1].rstrip() + "…"


def _is_visible(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn")


def _describe_place(cwd: object) -> str:
    if not isinstance(cwd, str):
        return ""
    return f" in {cwd.rstrip('/').rpartition('/')[2] or cwd}"


def _make_variables(
    event: Event, word: Word, title: str, text: str, payload: Mapping[str, Any]
) -> dict[str, str]:
    values = (
        word, title, text, event.type, event.seq, payload["session_id"], event.adapter, payload["cwd"],
        payload["model"], payload["name"], payload["group"], payload["waiting_for"], payload["outcome"],
        payload["exit_status"],
    )  # fmt: skip
    pairs = zip(VARIABLES, values, strict=True)
    return {name: _to_variable(value) for name, value in pairs}


def _to_variable(value: object) -> str:
    """Return text that a variable can hold: no NUL and no lone surrogate, except bytes of a path."""
    text = "" if value is None else str(value).replace("\0", "")
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
