"""A walk outside a room is refused; in one, it is seen through `agentctl doctor --live`
(tests/cli/verbs/test_doctor.py)."""

from pathlib import Path

import pytest

from agentctl.rehearsal import sandbox, walk


def test_outside_a_room_nothing_is_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(sandbox.ROOM, raising=False)
    assert walk.main(["claude-code", "/bin/true", "1"]) == 2
    assert "in a room" in capsys.readouterr().err


def test_wrong_words_are_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sandbox.ROOM, "1")
    assert walk.main(["claude-code"]) == 2


def test_a_program_that_says_no_version_has_none(tmp_path: Path) -> None:
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\n")
    mute.chmod(0o755)
    assert walk.asked(str(mute), {}, "/", 20) == ""
    assert walk.asked("/no/such", {}, "/", 20) == ""


def test_a_version_is_the_first_line_with_one() -> None:
    assert walk.asked("/bin/bash", {}, "/", 20).startswith("GNU bash")
