"""What can be tested without an archive; `make test-pythons` does the rest."""

from pathlib import Path

import pytest

from tests.pythons import debian


def test_the_machine_s_own_archive_is_used() -> None:
    listed = "http://a.example/debian-security/\nhttp://b.example/debian/\nhttp://c.example/debian\n"
    assert debian.archive(listed) == "http://b.example/debian/"
    with pytest.raises(debian.Missing, match="no Debian archive"):
        debian.archive("http://d.example/ubuntu/\n")


def test_without_apt_there_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(debian.Missing, match="apt-get is not there"):
        debian.install("3.99", tmp_path / "3.99")


def test_a_complete_interpreter_is_used_again(tmp_path: Path) -> None:
    (tmp_path / debian.READY).touch()
    assert debian.install("3.99", tmp_path) == tmp_path / "usr" / "bin" / "python3.99"


def test_a_failure_has_the_last_line_of_its_output() -> None:
    with pytest.raises(debian.Missing, match=r"sh failed: no route$"):
        debian.run(["sh", "-c", "echo first >&2; echo no route >&2; exit 100"])
