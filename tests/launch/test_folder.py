"""A launch's folder: private, read in whole lines, quoted at its end."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.launch import folder as output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "state" / "launches" / "1a"
    output.make_folder(str(path), b"the prompt")
    return path


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_it_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        output.make_folder(str(tmp_path / "launches" / "1a"), b"secret")
    finally:
        os.umask(before)
    assert (tmp_path / "launches").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "launches" / "1a").stat().st_mode & 0o777 == 0o700
    prompt = tmp_path / "launches" / "1a" / "stdin"
    assert prompt.stat().st_mode & 0o777 == 0o600
    assert prompt.read_bytes() == b"secret"


def test_other_files_for_the_agent_are_private_too(tmp_path: Path) -> None:
    folder = tmp_path / "launches" / "1a"
    output.make_folder(str(folder), b"secret", [("settings.json", b"{}"), ("system", b"be kind")])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "stdin": b"secret",
        "settings.json": b"{}",
        "system": b"be kind",
    }
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_an_existing_folder_is_refused(folder: Path) -> None:
    with pytest.raises(FileExistsError):
        output.make_folder(str(folder), b"another")
    assert (folder / "stdin").read_bytes() == b"the prompt"


def test_a_folder_is_removed_with_its_files_and_may_be_absent(folder: Path) -> None:
    _append(folder / "stdout", b"said")
    output.remove_folder(str(folder))
    assert not folder.exists()
    output.remove_folder(str(folder))


def test_each_line_comes_once_and_whole(folder: Path) -> None:
    with output.Lines(str(folder)) as lines:
        assert list(lines.read_new()) == []  # nothing was started yet
        _append(folder / "stdout", b"one\ntw")
        _append(folder / "stderr", b"oh\n")
        assert list(lines.read_new()) == [b"one", b"oh"]
        assert list(lines.read_new()) == []
        _append(folder / "stdout", b"o\n\nfour")
        assert list(lines.read_new()) == [b"two", b""]


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_lines_do_not_depend_on_how_the_output_is_cut(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    output_lines = []
    with output.Lines(str(folder)) as lines:
        for piece in pieces:
            _append(folder / "stdout", piece)
            output_lines += list(lines.read_new())
    assert output_lines == b"".join(pieces).split(b"\n")[:-1]


def test_a_line_without_end_costs_no_memory_and_no_other_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "WINDOW", 8)
    with output.Lines(str(folder)) as lines:
        _append(folder / "stdout", b"one\ntwo\n" + b"x" * 20)
        assert list(lines.read_new()) == [b"one", b"two"]
        _append(folder / "stdout", b"id\nfour\n")
        assert list(lines.read_new()) == [b"four"]


def test_last_lines_are_of_both_streams(folder: Path) -> None:
    assert output.last_lines(str(folder)) == ()
    _append(folder / "stdout", b"all is well\n")
    assert output.last_lines(str(folder)) == ("all is well",)
    _append(folder / "stderr", b"\n  \n")  # says nothing
    assert output.last_lines(str(folder)) == ("all is well",)
    _append(folder / "stderr", b"not logged in\n")
    assert output.last_lines(str(folder)) == ("all is well", "not logged in")


def test_last_lines_are_few_and_short(folder: Path) -> None:
    _append(folder / "stderr", b"first\n" + b"x" * 200_000 + b"\n")
    _append(folder / "stderr", b"".join(b"%d\n" % i for i in range(100)))
    assert output.last_lines(str(folder)) == tuple(str(i) for i in range(95, 100))
    _append(folder / "stderr", b"y" * 200_000)
    assert max(map(len, output.last_lines(str(folder)))) == output.LONGEST


def test_last_lines_need_not_be_text(folder: Path) -> None:
    _append(folder / "stderr", b"\xff\xfe bad\r\n")
    assert output.last_lines(str(folder)) == ("\ufffd\ufffd bad",)


def test_a_deleted_folder_has_no_lines(folder: Path) -> None:
    with output.Lines(str(folder)) as lines:
        output.remove_folder(str(folder))
        assert list(lines.read_new()) == []
    assert output.last_lines(str(folder)) == ()


def test_an_open_file_is_read_on_after_its_folder_is_deleted(folder: Path) -> None:
    """Our state may be deleted while an agent starts."""
    _append(folder / "stdout", b"one\n")
    with output.Lines(str(folder)) as lines, (folder / "stdout").open("ab") as agent:
        assert list(lines.read_new()) == [b"one"]
        output.remove_folder(str(folder))
        agent.write(b"two\n")
        agent.flush()
        assert list(lines.read_new()) == [b"two"]
