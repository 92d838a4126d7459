"""Text in, rounds out: for every text, and exactly for those that mean something."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentctl.rehearsal.model.script import (
    DIRECTIVES,
    BadScript,
    Call,
    Failure,
    Pause,
    Round,
    Shell,
    find_round,
    parse_rounds,
    strip_directives,
)

NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
COMMANDS = st.text(st.characters(blacklist_characters="[]|", blacklist_categories=["Cs"]), max_size=30)
# Texts that look like directives, and often are some.
NEARLY = st.lists(
    st.sampled_from(
        ("[[", "]]", "{{", "}}", *"[]{}=:|a1", "gate", "tool", "tools", "call", "say", "error")
    )
    | st.text(max_size=3)
).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_a_text_without_directives_is_one_plain_round() -> None:
    assert parse_rounds("please fix the [bug] in a[b[0]] and [[ -f x ]]") == (Round(),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[gate=a]]", Round(pauses=(Pause("gate", "a"),))),
        ("[[silent=a]][[mute=b]]", Round(pauses=(Pause("silent", "a"), Pause("mute", "b")))),
        ("[[stream=1.5]]", Round(pauses=(Pause("stream", seconds=1.5),))),
        ("[[hang]]", Round(pauses=(Pause("hang"),))),
        ("[[error=529]]", Round(failures=(Failure("error", 529),))),
        ("[[error=529x2]]", Round(failures=(Failure("error", 529, 2),))),
        ("[[cut]][[fault=1]]", Round(failures=(Failure("cut"), Failure("fault", times=1)))),
        ("[[say=two words]]", Round(say="two words")),
        ("[[think]] x [[stop=max_tokens]]", Round(think=True, stop="max_tokens")),
    ],
)
def test_directives_of_one_round(text: str, expected: Round) -> None:
    assert parse_rounds(f"before {text} after") == (expected,)


def test_a_call_ends_a_round_and_what_follows_is_the_next() -> None:
    script = parse_rounds("[[gate=a]][[tool=ls]][[think]][[tools=x|y]] done")
    assert script == (
        Round(pauses=(Pause("gate", "a"),), calls=(Shell("ls"),)),
        Round(think=True, calls=(Shell("x"), Shell("y"))),
        Round(),
    )


@pytest.mark.parametrize(("results", "number"), [(0, 0), (1, 1), (2, 1), (3, 2), (9, 2)])
def test_the_round_follows_from_the_results(results: int, number: int) -> None:
    assert find_round(parse_rounds("[[tool=ls]][[tools=x|y]]"), results) == number


@pytest.mark.parametrize(("results", "number"), [(0, 0), (1, 0), (2, 1), (3, 2)])
def test_several_calls_are_one_round(results: int, number: int) -> None:
    assert find_round(parse_rounds("[[tools=x|y]][[tool=ls]]"), results) == number


def test_brackets_of_a_shell_are_no_directives() -> None:
    first, _ = parse_rounds("[[tool=if [[ -f x ]]; then test [ a = a ]]]")
    assert first.calls == (Shell("if [[ -f x ]]; then test [ a = a ]"),)


def test_a_big_answer_has_that_size() -> None:
    (one,) = parse_rounds("[[big=200000]]")
    assert len((one.say or "").encode()) == 200_000


def test_the_brackets_for_a_sub_agent_are_left_to_it() -> None:
    outer = '[[call=Agent:{"prompt":"{{gate=in}} {{tool=ls}} go"}]][[say=main]]'
    first, last = parse_rounds(outer)
    assert first.calls == (Call("Agent", {"prompt": "{{gate=in}} {{tool=ls}} go"}),)
    assert last.say == "main"
    inner, end = parse_rounds("{{gate=in}} {{tool=ls}} go")
    assert inner == Round(pauses=(Pause("gate", "in"),), calls=(Shell("ls"),))
    assert end == Round()


@pytest.mark.parametrize(
    "text",
    [
        "[[gaet=a]]",
        "[[gate]]",
        "[[gate=a",
        "[[stream=soon]]",
        "[[error=200]]",
        "[[error=overloaded]]",
        "[[big=-1]]",
        "[[cut=often]]",
        "[[call=Agent]]",
        "[[call=Agent:{]]",
        "[[call=Agent:[1]]]",
        '[[call=Agent:{"a":1}',
    ],
)
def test_a_directive_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadScript):
        parse_rounds(text)


@given(NAMES, st.dictionaries(st.text(max_size=5), VALUES, max_size=3))
def test_any_json_can_be_the_argument_of_a_call(name: str, arguments: dict[str, object]) -> None:
    first, last = parse_rounds(f"x [[call={name}:{json.dumps(arguments)}]] y [[think]]")
    assert first.calls == (Call(name, arguments),)
    assert last == Round(think=True)


@given(st.lists(COMMANDS, min_size=1, max_size=5))
def test_each_command_is_a_round_and_the_last_is_the_answer(commands: list[str]) -> None:
    script = parse_rounds(" then ".join(f"[[tool={command}]]" for command in commands))
    assert [one.calls for one in script] == [*((Shell(command),) for command in commands), ()]
    assert [find_round(script, results) for results in range(len(script))] == list(range(len(script)))


@given(NEARLY)
def test_every_text_is_a_script_or_refused(text: str) -> None:
    try:
        script = parse_rounds(text)
    except BadScript:
        return
    assert not script[-1].calls
    assert all(one.calls for one in script[:-1])


@example("[[think]] {{gate=a}}")
@example("[[[[think]]gate=a]]")
@given(NEARLY)
def test_a_text_without_its_directives_is_no_script(text: str) -> None:
    """Answers become part of the conversation: an echo must not be played again."""
    assert parse_rounds(strip_directives(text)) == (Round(),)


def test_the_words_without_the_directives() -> None:
    assert strip_directives("[[gate=a]]  do\nthis [[tool=ls]]") == "do this"
    assert strip_directives("[[gate=a") == ""


def test_the_help_lists_every_directive() -> None:
    forms = {line.partition("[[")[2].partition("]]")[0] for line in DIRECTIVES.splitlines()}
    names = {one.partition("=")[0] for one in forms if one and one != "..."}
    for name in names:
        with pytest.raises(BadScript, match="no such directive"):
            parse_rounds(f"[[{name}x]]")
    assert names == {
        "gate",
        "silent",
        "mute",
        "stream",
        "hang",
        "tool",
        "tools",
        "call",
        "error",
        "cut",
        "fault",
        "say",
        "big",
        "think",
        "stop",
    }
