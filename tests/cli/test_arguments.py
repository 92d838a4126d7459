"""Words that several verbs share."""

import argparse
import time

import pytest

from agentctl.cli import arguments
from agentctl.errors import UsageError


def test_since_is_that_long_ago() -> None:
    before = time.time()
    moment = arguments.since("1h")
    assert before - 3600 <= moment <= time.time() - 3600


@pytest.mark.parametrize("text", ["1", "20"])
def test_count(text: str) -> None:
    assert arguments.count(text) == int(text)


@pytest.mark.parametrize("text", ["0", "-1", "", "x", "1.5", "²", "9" * 5000])
def test_not_a_count(text: str) -> None:
    with pytest.raises(UsageError, match="not a number of messages"):
        arguments.count(text)


def test_a_session_verb_takes_an_id_json_and_a_deadline() -> None:
    parser = argparse.ArgumentParser()
    arguments.add_session(parser)
    given = parser.parse_args(["4f2a", "--json", "--deadline", "3s"])
    assert (given.id, given.json, given.deadline) == ("4f2a", True, 3.0)
    assert parser.parse_args(["4f2a"]).deadline is None
