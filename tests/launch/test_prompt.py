"""One prompt from what the user gives: verbatim, whatever it contains, or refused in one line."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentctl.errors import AgentctlError, UsageError
from agentctl.launch import prompt
from agentctl.launch.prompt import PromptSources, compose_prompt, parse_size, read_issue

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def _file(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def _stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@given(TEXTS)
def test_any_text_without_nul_is_passed_verbatim(text: str) -> None:
    assume(text.strip())
    assert compose_prompt(PromptSources(text)) == text


@given(text=TEXTS)
def test_every_source_gives_the_same_prompt(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    assume(text.strip())
    path = _file(tmp_path_factory.mktemp("p") / "prompt", text)
    with pytest.MonkeyPatch.context() as patched:
        _stdin(patched, text.encode())
        assert (
            compose_prompt(PromptSources(stdin=True)) == compose_prompt(PromptSources(file=path)) == text
        )


@given(body=TEXTS)
def test_an_attached_file_stays_in_its_fence(
    tmp_path_factory: pytest.TempPathFactory, body: str
) -> None:
    path = _file(tmp_path_factory.mktemp("a") / "file", body)
    text = compose_prompt(PromptSources("do it", files=[path]))
    head, _, rest = text.partition(f"\n\nFile: {path}\n")
    fence, _, inside = rest.partition("\n")
    assert head == "do it"
    assert set(fence) == {"`"}
    assert inside == f"{body.rstrip()}\n{fence}"
    assert fence not in body


def test_a_fence_is_longer_than_those_in_the_file(tmp_path: Path) -> None:
    path = _file(tmp_path / "a.md", "```py\n````\n")
    assert compose_prompt(PromptSources("x", files=[path])).endswith("\n`````\n```py\n````\n`````")


def test_the_order_of_the_parts(tmp_path: Path) -> None:
    spec, one, two = (_file(tmp_path / name, name) for name in ("spec", "one", "two"))
    text = compose_prompt(PromptSources("text", spec=spec, files=[one, two]), "issue")
    assert [text.index(word) for word in ("issue", "text", "Spec:", f"File: {one}", f"File: {two}")] == (
        sorted(text.index(word) for word in ("issue", "text", "Spec:", f"File: {one}", f"File: {two}"))
    )


@pytest.mark.parametrize(
    "sources", [PromptSources(), PromptSources(""), PromptSources(" \n\t"), PromptSources(stdin=True)]
)
def test_no_prompt(sources: PromptSources, monkeypatch: pytest.MonkeyPatch) -> None:
    _stdin(monkeypatch, b"\n")
    with pytest.raises(UsageError, match="no prompt") as caught:
        compose_prompt(sources)
    assert "--prompt-file" in caught.value.hint


def test_an_empty_text_counts_as_a_prompt(tmp_path: Path) -> None:
    path = _file(tmp_path / "p", "from a file")
    with pytest.raises(UsageError, match="more than one prompt"):
        compose_prompt(PromptSources("", path))


@pytest.mark.parametrize(
    "sources",
    [PromptSources("a", "b"), PromptSources("a", stdin=True), PromptSources(None, "b", stdin=True)],
)
def test_two_prompts(sources: PromptSources) -> None:
    with pytest.raises(UsageError, match="more than one prompt"):
        compose_prompt(sources)


def test_an_issue_or_a_spec_alone_is_enough(tmp_path: Path) -> None:
    assert compose_prompt(PromptSources(), "Issue #1: crash") == "Issue #1: crash"
    assert compose_prompt(PromptSources(spec=_file(tmp_path / "s", "what to do"))).startswith("Spec: ")


@pytest.mark.parametrize("where", ["text", "file", "stdin", "spec", "files", "issue"])
def test_nul_is_refused_wherever_it_comes_from(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _file(tmp_path / "nul", b"a\0b")
    _stdin(monkeypatch, b"a\0b")
    sources = {
        "text": PromptSources("a\0b"),
        "file": PromptSources(file=path),
        "stdin": PromptSources(stdin=True),
        "spec": PromptSources("x", spec=path),
        "files": PromptSources("x", files=[path]),
        "issue": PromptSources("x"),
    }[where]
    with pytest.raises(UsageError, match="NUL"):
        compose_prompt(sources, "a\0b" if where == "issue" else None)


def test_what_is_not_utf8_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path / "latin", b"caf\xe9")
    _stdin(monkeypatch, b"\xff")
    for sources, message in (
        (PromptSources(file=path), f"{path} is not UTF-8 text"),
        (PromptSources("x", files=[path]), f"{path} is not UTF-8 text"),
        (PromptSources(stdin=True), "standard input is not UTF-8 text"),
        (
            PromptSources("caf\udce9"),
            "the prompt is not UTF-8 text",
        ),  # how an argument in Latin-1 arrives
    ):
        with pytest.raises(UsageError, match=message):
            compose_prompt(sources)


def test_the_limit_is_for_attached_files_alone(tmp_path: Path) -> None:
    path = _file(tmp_path / "f", "x" * 101)
    with pytest.raises(UsageError, match=f"{path} is larger than 100 bytes") as caught:
        compose_prompt(PromptSources("p", files=[path], max_file=100))
    assert "--max-file-size" in caught.value.hint
    with pytest.raises(UsageError, match="larger than"):
        compose_prompt(PromptSources("p", spec=path, max_file=100))
    assert f"\n{'x' * 101}\n" in compose_prompt(PromptSources("p", files=[path], max_file=101))
    assert compose_prompt(PromptSources(file=path, max_file=100)) == "x" * 101


def test_a_file_whose_size_the_kernel_does_not_tell() -> None:
    """Files in /proc say they are empty."""
    with pytest.raises(UsageError, match="larger than 3 bytes"):
        compose_prompt(PromptSources("p", files=["/proc/self/status"], max_file=3))


@pytest.mark.parametrize(("name", "why"), [("none", "No such file"), ("folder", "Is a directory")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "folder").mkdir()
    path = str(tmp_path / name)
    for sources in (
        PromptSources(file=path),
        PromptSources("p", spec=path),
        PromptSources("p", files=[path]),
    ):
        with pytest.raises(UsageError, match=f"cannot read {path}: {why}"):
            compose_prompt(sources)


def test_no_path_at_all() -> None:
    with pytest.raises(UsageError, match="not a path"):
        compose_prompt(PromptSources(file="a\0b"))


def test_a_fifo_without_a_writer_does_not_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "PATIENCE", 0.01)
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    for sources in (
        PromptSources(file=path),
        PromptSources("p", spec=path),
        PromptSources("p", files=[path]),
    ):
        with pytest.raises(UsageError, match=f"nothing came from {path} within 0.01 s"):
            compose_prompt(sources)


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """As from `--prompt-file <(git diff)`: the writer may be late, slow and large."""
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    script = f"exec > {path}; echo one; head -c 200000 /dev/zero | tr '\\0' x; echo; echo two"
    with subprocess.Popen(["/bin/sh", "-c", script]) as writer:
        assert compose_prompt(PromptSources(file=path)) == "one\n" + "x" * 200_000 + "\ntwo\n"
        assert writer.wait(20) == 0


def test_standard_input_may_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="no prompt"):
        compose_prompt(PromptSources(stdin=True))


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("4096", 4096), ("64K", 65536), ("64k", 65536), ("2M", 2 << 20), ("1g", 1 << 30)],
)
def test_sizes(text: str, number: int) -> None:
    assert parse_size(text) == number


@pytest.mark.parametrize("text", ["", "K", "-1", "1.5M", "1T", "1 K", "٣", "9" * 20, "0x10"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError, match="not a size"):
        parse_size(text)


def test_a_prompt_that_never_ends_is_refused() -> None:
    with pytest.raises(UsageError, match=r"/dev/zero is larger than 16777216 bytes") as caught:
        compose_prompt(PromptSources(file="/dev/zero"))
    assert "a prompt is text" in caught.value.hint


def test_standard_input_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/zero", encoding="utf-8") as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        with pytest.raises(UsageError, match=r"standard input is larger than 16777216 bytes"):
            compose_prompt(PromptSources(stdin=True))


def test_the_largest_prompt_is_accepted(tmp_path: Path) -> None:
    path = _file(tmp_path / "p", "x" * prompt.MAX_PROMPT)
    assert len(compose_prompt(PromptSources(file=path))) == prompt.MAX_PROMPT


# GitHub issues, from a `gh` of our own


ANSWER = {"number": 42, "title": "It crashes", "body": "When I do\n\nthat.", "url": "https://x/42"}


class Gh:
    """A fake `gh`, and what it was called with."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environ = {"PATH": f"{root}/bin:/usr/bin:/bin", "HOME": str(root)}
        (root / "bin").mkdir()

    def set_script(self, script: str) -> None:
        path = self.root / "bin" / "gh"
        path.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" > {self.root}/words; pwd > {self.root}/cwd\n{script}\n'
        )
        path.chmod(0o755)

    def set_answer(self, answer: object) -> None:
        (self.root / "answer").write_text(json.dumps(answer))
        self.set_script(f"cat {self.root}/answer")

    def text(self, number: str = "42", repository: str | None = None) -> str:
        return read_issue(number, repository, str(self.root), self.environ)


@pytest.fixture
def gh(tmp_path: Path) -> Gh:
    return Gh(tmp_path)


def test_an_issue_becomes_text(gh: Gh) -> None:
    gh.set_answer(ANSWER)
    assert gh.text() == "Issue #42: It crashes\nhttps://x/42\n\nWhen I do\n\nthat."
    words = (gh.root / "words").read_text().splitlines()
    assert words == ["issue", "view", "42", "--json", "number,title,body,url"]
    assert (gh.root / "cwd").read_text().strip() == os.path.realpath(gh.root)


def test_an_issue_of_another_repository(gh: Gh) -> None:
    gh.set_answer(ANSWER)
    gh.text(repository="o/r")
    assert (gh.root / "words").read_text().splitlines()[3:5] == ["--repo", "o/r"]


@pytest.mark.parametrize("body", ["", None])
def test_without_a_body_there_is_only_its_title(gh: Gh, body: str | None) -> None:
    gh.set_answer({**ANSWER, "body": body})
    assert gh.text() == "Issue #42: It crashes\nhttps://x/42"


def test_an_error_of_gh_is_quoted(gh: Gh) -> None:
    gh.set_script("echo 'To get started, run: gh auth login' >&2; exit 4")
    with pytest.raises(AgentctlError, match="gh cannot show issue 42: To get started, run: gh auth"):
        gh.text()
    gh.set_script("exit 3")
    with pytest.raises(AgentctlError, match="gh cannot show issue 42: exit code 3"):
        gh.text()


def test_gh_does_not_get_our_standard_input(gh: Gh) -> None:
    """The prompt may come from there, and gh asks questions if it can."""
    gh.set_script("readlink /proc/self/fd/0 >&2; exit 1")
    ours, (reader, writer) = os.dup(0), os.pipe()
    os.dup2(reader, 0)
    try:
        with pytest.raises(AgentctlError, match="/dev/null"):
            gh.text()
    finally:
        os.dup2(ours, 0)
        for fd in (ours, reader, writer):
            os.close(fd)


def test_a_gh_that_hangs_is_ended(gh: Gh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "GH_LIMIT", 0.05)
    gh.set_script("exec sleep 1000")
    with pytest.raises(AgentctlError, match=r"gh did not answer within 0\.05 s"):
        gh.text()


@pytest.mark.parametrize("answer", [[], "text", None, 7, {}, {"number": 42, "title": "t"}])
def test_an_unexpected_answer_is_an_error(gh: Gh, answer: object) -> None:
    gh.set_answer(answer)
    with pytest.raises(AgentctlError, match="cannot read the answer of gh about issue 42"):
        gh.text()


def test_an_answer_that_is_not_text_is_an_error(gh: Gh) -> None:
    gh.set_script("printf '\\377'")
    with pytest.raises(AgentctlError, match="cannot read the answer of gh"):
        gh.text()


def test_a_missing_gh_is_reported_with_its_path(gh: Gh) -> None:
    gh.environ["PATH"] = str(gh.root / "bin")
    with pytest.raises(AgentctlError, match="--issue needs GitHub's gh: gh is not installed") as caught:
        gh.text()
    assert f"{gh.root}/bin" in caught.value.hint


def test_a_gh_that_cannot_be_run(gh: Gh) -> None:
    (gh.root / "bin" / "gh").write_bytes(b"\x7fELF rubbish")
    (gh.root / "bin" / "gh").chmod(0o755)
    with pytest.raises(AgentctlError, match="cannot run gh"):
        gh.text()


@pytest.mark.parametrize("number", ["", "x", "-1", "4 2", "#42", "--web", "٤"])
def test_an_issue_must_be_a_number(gh: Gh, number: str) -> None:
    with pytest.raises(UsageError, match="not an issue number"):
        gh.text(number)
