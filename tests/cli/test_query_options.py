"""The words of `list`, `status` and `why`, and their answers."""

import re

import pytest

from agentctl.cli import queries, query_options
from agentctl.cli.queries import Asker, ListOptions
from agentctl.errors import UsageError
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of, environ_of


def without_numbers(output: str) -> list[str]:
    """Leave out ages: a second may begin between two looks."""
    return re.sub(r"\d+", "N", output).split()


@pytest.mark.parametrize("verb", query_options.PARSERS)
def test_the_answer_is_that_of_the_verb(stage: DemoStage, verb: str) -> None:
    puppet = stage.start()
    puppet.do("rest")
    words = [] if verb == "list" else [puppet.session_id or ""]
    answer = query_options.answer_words(verb, words, Asker(environ_of(stage), None, str(stage.root)))
    ran = agentctl_of(stage, verb, *words)
    output = "".join(answer.out)
    assert (without_numbers(output), answer.err, answer.code) == (without_numbers(ran.out), "", 0)


def test_an_unknown_session_is_an_answer(stage: DemoStage) -> None:
    answer = query_options.answer_words("why", ["nosuch"], Asker(environ_of(stage), None))
    assert (list(answer.out), answer.code) == ([], 3)
    assert answer.err.startswith("agentctl: no session 'nosuch'\n")


@pytest.mark.parametrize("text", ["", ",", "lunch", "idle,lunch"])
def test_an_unknown_status_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="status"):
        query_options.parse_statuses(text)


def test_every_option_of_list_is_read() -> None:
    words = "-a --since 1h --adapter demo --status idle --group g --cwd . --watch --json --deadline 3s"
    options = queries.read_list_options(query_options.list_parser().parse_words(words.split()))
    defaults = ListOptions()
    unread = [name for name in ListOptions._fields if getattr(options, name) == getattr(defaults, name)]
    assert unread == []
