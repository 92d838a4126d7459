"""A rehearsal outside a sandbox is refused. tests/cli/verbs/test_doctor.py runs one inside, through
`agentctl doctor --live`."""

from pathlib import Path

import pytest

from agentctl.rehearsal import __main__ as program
from agentctl.rehearsal import sandbox


def test_outside_a_sandbox_nothing_is_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(sandbox.IN_SANDBOX, raising=False)
    assert program.main(["claude-code", "/bin/true", "1"]) == 2
    assert "in a sandbox" in capsys.readouterr().err


def test_wrong_words_are_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sandbox.IN_SANDBOX, "1")
    assert program.main(["claude-code"]) == 2


def test_a_program_that_says_no_version_has_none(tmp_path: Path) -> None:
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\n")
    mute.chmod(0o755)
    assert program.ask_version(str(mute), {}, "/", 20) == ""
    assert program.ask_version("/no/such", {}, "/", 20) == ""


def test_a_version_is_the_first_line_with_one() -> None:
    assert program.ask_version("/bin/bash", {}, "/", 20).startswith("GNU bash")
