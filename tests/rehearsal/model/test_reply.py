"""What is said when the script does not say it."""

import json
from typing import Any

import pytest

from agentctl.rehearsal.model.reply import make_default, make_instance
from agentctl.rehearsal.model.request import Request


def request(text: str, *, helper: bool = False, schema: dict[str, Any] | None = None) -> Request:
    return Request(
        text, 0, {}, streaming=True, helper=helper, model="m", conversation="c", schema=schema
    )


def test_a_plain_answer_echoes_the_words_but_no_directive() -> None:
    assert make_default(request("[[gate=a]] do this")) == "ok: do this"
    assert make_default(request("[[gate=a]]")) == "ok"


def test_news_from_the_agent_itself_is_not_echoed() -> None:
    assert make_default(request("<task-notification>[[gate=a]]</task-notification>")) == "ok"


def test_a_helper_gets_a_short_text_or_its_json() -> None:
    assert make_default(request("[[gate=a]] title?", helper=True)) == "A rehearsal"
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    assert json.loads(make_default(request("x", helper=True, schema=schema))) == {"title": "A rehearsal"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "A rehearsal"),
        ({"type": ["null", "string"]}, None),
        ({"type": "boolean"}, False),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "number"}, 0),
        ({"enum": ["red", "blue"]}, "red"),
        ({"const": 7}, 7),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 0),
        ({"type": "array", "items": {"type": "boolean"}}, []),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [False, False]),
        ({"properties": {"a": {"properties": {}}}}, {"a": {}}),
    ],
)
def test_the_least_that_fits_a_schema(schema: dict[str, Any], expected: Any) -> None:
    assert make_instance(schema) == expected
