"""A launch's folder: private, read in whole lines, quoted at its end."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.launch import folder as output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "state" / "launches" / "1a"
    output.make(str(made), b"the prompt")
    return made


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_it_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        output.make(str(tmp_path / "launches" / "1a"), b"secret")
    finally:
        os.umask(before)
    assert (tmp_path / "launches").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "launches" / "1a").stat().st_mode & 0o777 == 0o700
    prompt = tmp_path / "launches" / "1a" / "stdin"
    assert prompt.stat().st_mode & 0o777 == 0o600
    assert prompt.read_bytes() == b"secret"


def test_what_else_the_agent_is_to_read_is_private_too(tmp_path: Path) -> None:
    folder = tmp_path / "launches" / "1a"
    output.make(str(folder), b"secret", [("settings.json", b"{}"), ("system", b"be kind")])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "stdin": b"secret",
        "settings.json": b"{}",
        "system": b"be kind",
    }
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_another_launchs_folder_is_not_taken(folder: Path) -> None:
    with pytest.raises(FileExistsError):
        output.make(str(folder), b"another")
    assert (folder / "stdin").read_bytes() == b"the prompt"


def test_it_is_removed_with_all_in_it_and_may_be_gone(folder: Path) -> None:
    _append(folder / "stdout", b"said")
    output.remove(str(folder))
    assert not folder.exists()
    output.remove(str(folder))


def test_lines_come_once_and_whole(folder: Path) -> None:
    with output.Lines(str(folder)) as lines:
        assert list(lines.new()) == []  # nothing was started yet
        _append(folder / "stdout", b"one\ntw")
        _append(folder / "stderr", b"oh\n")
        assert list(lines.new()) == [b"one", b"oh"]
        assert list(lines.new()) == []
        _append(folder / "stdout", b"o\n\nfour")
        assert list(lines.new()) == [b"two", b""]


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_however_it_is_cut_the_lines_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    got = []
    with output.Lines(str(folder)) as lines:
        for piece in pieces:
            _append(folder / "stdout", piece)
            got += list(lines.new())
    assert got == b"".join(pieces).split(b"\n")[:-1]


def test_a_line_without_end_costs_no_memory_and_no_other_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "WINDOW", 8)
    with output.Lines(str(folder)) as lines:
        _append(folder / "stdout", b"one\ntwo\n" + b"x" * 20)
        assert list(lines.new()) == [b"one", b"two"]
        _append(folder / "stdout", b"id\nfour\n")
        assert list(lines.new()) == [b"four"]


def test_last_words_are_those_of_both_streams(folder: Path) -> None:
    assert output.last_words(str(folder)) == ()
    _append(folder / "stdout", b"all is well\n")
    assert output.last_words(str(folder)) == ("all is well",)
    _append(folder / "stderr", b"\n  \n")  # says nothing
    assert output.last_words(str(folder)) == ("all is well",)
    _append(folder / "stderr", b"not logged in\n")
    assert output.last_words(str(folder)) == ("all is well", "not logged in")


def test_last_words_are_few_and_short(folder: Path) -> None:
    _append(folder / "stderr", b"first\n" + b"x" * 200_000 + b"\n")
    _append(folder / "stderr", b"".join(b"%d\n" % i for i in range(100)))
    assert output.last_words(str(folder)) == tuple(str(i) for i in range(95, 100))
    _append(folder / "stderr", b"y" * 200_000)
    assert max(map(len, output.last_words(str(folder)))) == output.LONGEST


def test_last_words_need_not_be_text(folder: Path) -> None:
    _append(folder / "stderr", b"\xff\xfe bad\r\n")
    assert output.last_words(str(folder)) == ("\ufffd\ufffd bad",)


def test_a_deleted_folder_says_nothing(folder: Path) -> None:
    with output.Lines(str(folder)) as lines:
        output.remove(str(folder))
        assert list(lines.new()) == []
    assert output.last_words(str(folder)) == ()


def test_what_was_seen_once_is_heard_to_its_end(folder: Path) -> None:
    """Our state may be deleted while an agent starts."""
    _append(folder / "stdout", b"one\n")
    with output.Lines(str(folder)) as lines, (folder / "stdout").open("ab") as agent:
        assert list(lines.new()) == [b"one"]
        output.remove(str(folder))
        agent.write(b"two\n")
        agent.flush()
        assert list(lines.new()) == [b"two"]
