"""One prompt out of what a person gives: verbatim, whatever it holds, or refused in one line."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentctl.errors import UsageError
from agentctl.launch import prompt
from agentctl.launch.prompt import Sources, composed, size

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def _file(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def _stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@given(TEXTS)
def test_any_text_but_nul_is_told_verbatim(text: str) -> None:
    assume(text.strip())
    assert composed(Sources(text)) == text


@given(text=TEXTS)
def test_it_does_not_matter_where_it_comes_from(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    assume(text.strip())
    path = _file(tmp_path_factory.mktemp("p") / "prompt", text)
    with pytest.MonkeyPatch.context() as patched:
        _stdin(patched, text.encode())
        assert composed(Sources(stdin=True)) == composed(Sources(file=path)) == text


@given(body=TEXTS)
def test_no_attached_file_gets_out_of_its_fence(
    tmp_path_factory: pytest.TempPathFactory, body: str
) -> None:
    path = _file(tmp_path_factory.mktemp("a") / "file", body)
    told = composed(Sources("do it", files=[path]))
    head, _, rest = told.partition(f"\n\nFile: {path}\n")
    fence, _, inside = rest.partition("\n")
    assert head == "do it"
    assert set(fence) == {"`"}
    assert inside == f"{body.rstrip()}\n{fence}"
    assert fence not in body


def test_fences_of_a_file_are_outgrown(tmp_path: Path) -> None:
    path = _file(tmp_path / "a.md", "```py\n````\n")
    assert composed(Sources("x", files=[path])).endswith("\n`````\n```py\n````\n`````")


def test_the_order_of_the_parts(tmp_path: Path) -> None:
    spec, one, two = (_file(tmp_path / name, name) for name in ("spec", "one", "two"))
    told = composed(Sources("text", issue="issue", spec=spec, files=[one, two]))
    assert [told.index(word) for word in ("issue", "text", "Spec:", f"File: {one}", f"File: {two}")] == (
        sorted(told.index(word) for word in ("issue", "text", "Spec:", f"File: {one}", f"File: {two}"))
    )


@pytest.mark.parametrize("sources", [Sources(), Sources(""), Sources(" \n\t"), Sources(stdin=True)])
def test_no_prompt(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    _stdin(monkeypatch, b"\n")
    with pytest.raises(UsageError, match="no prompt") as told:
        composed(sources)
    assert "--prompt-file" in told.value.hint


def test_an_empty_text_is_a_prompt_all_the_same_for_counting(tmp_path: Path) -> None:
    path = _file(tmp_path / "p", "from a file")
    with pytest.raises(UsageError, match="more than one prompt"):
        composed(Sources("", path))


@pytest.mark.parametrize(
    "sources", [Sources("a", "b"), Sources("a", stdin=True), Sources(None, "b", stdin=True)]
)
def test_two_prompts(sources: Sources) -> None:
    with pytest.raises(UsageError, match="more than one prompt"):
        composed(sources)


def test_an_issue_or_a_spec_alone_is_enough(tmp_path: Path) -> None:
    assert composed(Sources(issue="Issue #1: crash")) == "Issue #1: crash"
    assert composed(Sources(spec=_file(tmp_path / "s", "what to do"))).startswith("Spec: ")


@pytest.mark.parametrize("where", ["text", "file", "stdin", "spec", "files", "issue"])
def test_nul_is_refused_wherever_it_comes_from(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _file(tmp_path / "nul", b"a\0b")
    _stdin(monkeypatch, b"a\0b")
    sources = {
        "text": Sources("a\0b"),
        "file": Sources(file=path),
        "stdin": Sources(stdin=True),
        "spec": Sources("x", spec=path),
        "files": Sources("x", files=[path]),
        "issue": Sources("x", issue="a\0b"),
    }[where]
    with pytest.raises(UsageError, match="NUL"):
        composed(sources)


def test_what_is_not_utf8_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path / "latin", b"caf\xe9")
    _stdin(monkeypatch, b"\xff")
    for sources, who in (
        (Sources(file=path), f"{path} is not UTF-8 text"),
        (Sources("x", files=[path]), f"{path} is not UTF-8 text"),
        (Sources(stdin=True), "standard input is not UTF-8 text"),
        (Sources("caf\udce9"), "the prompt is not UTF-8 text"),  # as a word of the call it looks so
    ):
        with pytest.raises(UsageError, match=who):
            composed(sources)


def test_the_limit_is_for_attached_files_alone(tmp_path: Path) -> None:
    path = _file(tmp_path / "f", "x" * 101)
    with pytest.raises(UsageError, match=f"{path} is larger than 100 bytes") as told:
        composed(Sources("p", files=[path], max_file=100))
    assert "--max-file-size" in told.value.hint
    with pytest.raises(UsageError, match="larger than"):
        composed(Sources("p", spec=path, max_file=100))
    assert f"\n{'x' * 101}\n" in composed(Sources("p", files=[path], max_file=101))
    assert composed(Sources(file=path, max_file=100)) == "x" * 101


def test_a_file_whose_size_the_kernel_does_not_tell() -> None:
    """Files in /proc say they are empty."""
    with pytest.raises(UsageError, match="larger than 3 bytes"):
        composed(Sources("p", files=["/proc/self/status"], max_file=3))


@pytest.mark.parametrize(("name", "why"), [("none", "No such file"), ("folder", "Is a directory")])
def test_what_cannot_be_read_is_told_by_name(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "folder").mkdir()
    path = str(tmp_path / name)
    for sources in (Sources(file=path), Sources("p", spec=path), Sources("p", files=[path])):
        with pytest.raises(UsageError, match=f"cannot read {path}: {why}"):
            composed(sources)


def test_no_path_at_all() -> None:
    with pytest.raises(UsageError, match="no path"):
        composed(Sources(file="a\0b"))


def test_a_fifo_that_nobody_writes_to_does_not_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt, "PATIENCE", 0.01)
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    for sources in (Sources(file=path), Sources("p", spec=path), Sources("p", files=[path])):
        with pytest.raises(UsageError, match=f"nothing came from {path} within 0.01 s"):
            composed(sources)


def test_what_comes_through_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """As from `--prompt-file <(git diff)`: the writer may be late, slow and large."""
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    script = f"exec > {path}; echo one; head -c 200000 /dev/zero | tr '\\0' x; echo; echo two"
    with subprocess.Popen(["/bin/sh", "-c", script]) as writer:
        assert composed(Sources(file=path)) == "one\n" + "x" * 200_000 + "\ntwo\n"
        assert writer.wait(20) == 0


def test_standard_input_may_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="no prompt"):
        composed(Sources(stdin=True))


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("4096", 4096), ("64K", 65536), ("64k", 65536), ("2M", 2 << 20), ("1g", 1 << 30)],
)
def test_sizes(text: str, number: int) -> None:
    assert size(text) == number


@pytest.mark.parametrize("text", ["", "K", "-1", "1.5M", "1T", "1 K", "٣", "9" * 20, "0x10"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError, match="not a size"):
        size(text)


def test_a_prompt_that_never_ends_is_refused() -> None:
    with pytest.raises(UsageError, match=r"/dev/zero is larger than 16777216 bytes") as told:
        composed(Sources(file="/dev/zero"))
    assert "a prompt is text" in told.value.hint


def test_standard_input_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/zero", encoding="utf-8") as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        with pytest.raises(UsageError, match=r"standard input is larger than 16777216 bytes"):
            composed(Sources(stdin=True))


def test_a_prompt_may_be_as_large_as_that(tmp_path: Path) -> None:
    path = _file(tmp_path / "p", "x" * prompt.MAX_PROMPT)
    assert len(composed(Sources(file=path))) == prompt.MAX_PROMPT
