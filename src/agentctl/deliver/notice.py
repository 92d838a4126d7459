"""What a person is told of an event: a title, a few words, how loud. Other people's text is data: it
moves no cursor and hides nothing, wherever it is shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from agentctl.truth.event import Event
from agentctl.wire import webhook

Word = Literal["waiting", "finished", "failed"]
TITLE, TEXT = 100, 400  # characters: it is read on a telephone, too
FAILED = ("failed", "killed")
_SAYS: Mapping[Word, str] = {
    "waiting": "waits for you",
    "finished": "has finished",
    "failed": "has failed",
}
# As ntfy calls them.
PRIORITIES: Mapping[Word, str] = {"waiting": "high", "finished": "default", "failed": "high"}
TAGS: Mapping[Word, str] = {"waiting": "raised_hand", "finished": "white_check_mark", "failed": "x"}

# What a command finds in its environment; empty: not known, or not so. docs/notifications.md is held
# to it. There is no AGENTCTL_LAUNCH_ID among it: by that, all that a launch has started is known.
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


def of(event: Event) -> Notice:
    told = webhook.webhook(event, "")
    session: Mapping[str, Any] = event.body.get("session") or {}
    word = meant(event)
    title = line(f"{event.adapter or 'an agent'} {_SAYS[word]}{_place(told['cwd'])}", TITLE)
    about = line(str(told["name"] or told["title"] or session.get("prompt") or ""), TEXT // 2)
    text = line(told["summary"], TEXT // 2)
    if about and about not in text:
        text += f"\n{about}"
    return Notice(word, title, text, _facts(event, word, title, text, told))


def test() -> Notice:
    title, text = "agentctl", "This is a test: agentctl can reach you."
    facts = {**dict.fromkeys(VARIABLES, ""), "AGENTCTL_ON": "waiting"}
    return Notice("waiting", title, text, {**facts, "AGENTCTL_TITLE": title, "AGENTCTL_TEXT": text})


def meant(event: Event) -> Word:
    if event.type == "session.waiting":
        return "waiting"
    outcome = (event.body.get("session") or {}).get("outcome")
    return "failed" if outcome in FAILED else "finished"


def line(text: str, most: int) -> str:
    """On one line, of at most that many characters; control and format characters, of which some turn
    what follows around, are left out."""
    plain = "".join(" " if c.isspace() else c for c in text if c.isspace() or _shown(c))
    folded = " ".join(plain.split())
    return folded if len(folded) <= most else folded[: most - 1].rstrip() + "…"


def _shown(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn")


def _place(cwd: object) -> str:
    if not isinstance(cwd, str):
        return ""
    return f" in {cwd.rstrip('/').rpartition('/')[2] or cwd}"


def _facts(event: Event, word: Word, title: str, text: str, told: Mapping[str, Any]) -> dict[str, str]:
    values = (
        word, title, text, event.type, event.seq, told["session_id"], event.adapter, told["cwd"],
        told["model"], told["name"], told["group"], told["waiting_for"], told["outcome"],
        told["exit_status"],
    )  # fmt: skip
    pairs = zip(VARIABLES, values, strict=True)
    return {name: _variable(value) for name, value in pairs}


def _variable(value: object) -> str:
    """No variable holds a NUL, nor half of a pair of surrogates; bytes of a path that are no text, it
    does."""
    text = "" if value is None else str(value).replace("\0", "")
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
