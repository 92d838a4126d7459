"""A GitHub issue at the beginning of a prompt, told by a `gh` of our own making."""

import json
import os
from pathlib import Path

import pytest

from agentctl.errors import AgentctlError, UsageError
from agentctl.launch import issue

ANSWER = {"number": 42, "title": "It crashes", "body": "When I do\n\nthat.", "url": "https://x/42"}


class Gh:
    """The program, and what it was called with."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environ = {"PATH": f"{root}/bin:/usr/bin:/bin", "HOME": str(root)}
        (root / "bin").mkdir()

    def does(self, script: str) -> None:
        path = self.root / "bin" / "gh"
        path.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" > {self.root}/words; pwd > {self.root}/cwd\n{script}\n'
        )
        path.chmod(0o755)

    def answers(self, answer: object) -> None:
        (self.root / "answer").write_text(json.dumps(answer))
        self.does(f"cat {self.root}/answer")

    def text(self, number: str = "42", repository: str | None = None) -> str:
        return issue.text(number, repository, str(self.root), self.environ)


@pytest.fixture
def gh(tmp_path: Path) -> Gh:
    return Gh(tmp_path)


def test_an_issue_is_told(gh: Gh) -> None:
    gh.answers(ANSWER)
    assert gh.text() == "Issue #42: It crashes\nhttps://x/42\n\nWhen I do\n\nthat."
    words = (gh.root / "words").read_text().splitlines()
    assert words == ["issue", "view", "42", "--json", "number,title,body,url"]
    assert (gh.root / "cwd").read_text().strip() == os.path.realpath(gh.root)


def test_of_another_repository(gh: Gh) -> None:
    gh.answers(ANSWER)
    gh.text(repository="o/r")
    assert (gh.root / "words").read_text().splitlines()[3:5] == ["--repo", "o/r"]


@pytest.mark.parametrize("body", ["", None])
def test_without_a_body_there_is_only_its_title(gh: Gh, body: str | None) -> None:
    gh.answers({**ANSWER, "body": body})
    assert gh.text() == "Issue #42: It crashes\nhttps://x/42"


def test_its_own_words_when_it_fails(gh: Gh) -> None:
    gh.does("echo 'To get started, run: gh auth login' >&2; exit 4")
    with pytest.raises(AgentctlError, match="gh cannot show issue 42: To get started, run: gh auth"):
        gh.text()
    gh.does("exit 3")
    with pytest.raises(AgentctlError, match="gh cannot show issue 42: exit code 3"):
        gh.text()


def test_it_does_not_get_our_standard_input(gh: Gh) -> None:
    """The prompt may come from there, and it asks questions when it can."""
    gh.does("readlink /proc/self/fd/0 >&2; exit 1")
    ours, (reader, writer) = os.dup(0), os.pipe()
    os.dup2(reader, 0)
    try:
        with pytest.raises(AgentctlError, match="/dev/null"):
            gh.text()
    finally:
        os.dup2(ours, 0)
        for fd in (ours, reader, writer):
            os.close(fd)


def test_one_that_hangs_is_ended(gh: Gh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issue, "LIMIT", 0.05)
    gh.does("exec sleep 1000")
    with pytest.raises(AgentctlError, match=r"gh gave no answer within 0\.05 s"):
        gh.text()


@pytest.mark.parametrize("answer", [[], "text", None, 7, {}, {"number": 42, "title": "t"}])
def test_rubbish_makes_no_sense(gh: Gh, answer: object) -> None:
    gh.answers(answer)
    with pytest.raises(AgentctlError, match="gh's answer about issue 42 makes no sense"):
        gh.text()


def test_no_answer_makes_no_sense(gh: Gh) -> None:
    gh.does("printf '\\377'")
    with pytest.raises(AgentctlError, match="makes no sense"):
        gh.text()


def test_absent_it_is_told_where_it_was_looked_for(gh: Gh) -> None:
    gh.environ["PATH"] = str(gh.root / "bin")
    with pytest.raises(
        AgentctlError, match="--issue needs GitHub's gh, and gh is not installed"
    ) as told:
        gh.text()
    assert f"{gh.root}/bin" in told.value.hint


def test_one_that_cannot_be_run(gh: Gh) -> None:
    (gh.root / "bin" / "gh").write_bytes(b"\x7fELF rubbish")
    (gh.root / "bin" / "gh").chmod(0o755)
    with pytest.raises(AgentctlError, match="gh cannot be run"):
        gh.text()


@pytest.mark.parametrize("number", ["", "x", "-1", "4 2", "#42", "--web", "٤"])
def test_what_is_no_number(gh: Gh, number: str) -> None:
    with pytest.raises(UsageError, match="not the number of an issue"):
        gh.text(number)
