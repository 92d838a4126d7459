"""Text as the worst agent would write it, and what must never reach a terminal."""

import json
import time
import unicodedata
from pathlib import Path

from agentctl.testing import Puppet, Stage

ESCAPES = "\x1b[31mred\x1b[2J \x1b]0;owned\x07 \x9b31m \x1bP1$r\x1b\\ \x00 \x08 \x7f"
INVISIBLE = "\u202egnp.exe\u202c \u2066x\u2069 \u200b \ufeff \u00ad \U000e0041 \ufe01 \U000e0100"
BREAKS = "a\nb\r\nc\td\x0be\x0cf\x1cg\x85h\u2028i\u2029j"
WIDE = "漢字カタカナ \uff46\uff55\uff4c\uff4c 👩\u200d👩\u200d👧 🇩🇪 ❤\ufe0f 👍🏽"
MARKS = "e\u0301\u0302\u0303 a\u20dd ก\u0e34\u0e48 한 \u1112\u1161\u11ab"
RIGHT_TO_LEFT = "שלום עולם مرحبا"
BROKEN = "\ud800 \udfff \udc80"
ALL = f"{ESCAPES} {INVISIBLE} {BREAKS} {WIDE} {MARKS} {RIGHT_TO_LEFT} {BROKEN}"


def harmful(text: str) -> list[str]:
    """Return the characters that a terminal would obey, or hide."""
    return [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def poison(stage: Stage, puppet: Puppet, text: str = ALL) -> Path:
    """Write this text into every field of the session's journal, and return its path."""
    path = stage.home / ".demo-agent" / "sessions" / f"{puppet.session_id}.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        for field in ("cwd", "model", "version", "text"):
            if field in record:
                record[field] = f"/{text}" if field == "cwd" else text
    now = time.time()
    records.append({"type": "turn", "at": now, "state": "waiting", "question": text})
    records.append({"type": "say", "at": now, "role": "assistant", "text": text})
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path
