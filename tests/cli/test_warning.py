"""What a verb says beside its answer."""

import pytest

from agentctl.cli.warning import warn


def test_one_line_beside_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    warn("the disk is full:\n\x1b[2Jdelete something")
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith("agentctl: the disk is full: ")
    assert "\x1b" not in shown.err
