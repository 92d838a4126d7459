"""Every error is an answer."""

import pytest

from agentctl import errors
from agentctl.errors import AgentctlError, SourceError


def _leaves(error: type[AgentctlError]) -> list[type[AgentctlError]]:
    below = error.__subclasses__()
    return [error, *(leaf for child in below for leaf in _leaves(child))]


@pytest.mark.parametrize("error", _leaves(AgentctlError), ids=lambda error: error.__name__)
def test_the_docstring_lists_every_error_and_its_exit_code(error: type[AgentctlError]) -> None:
    line = next(
        line for line in (errors.__doc__ or "").splitlines() if f" {error.__name__} " in f" {line} "
    )
    codes = [int(word) for word in line.split() if word.isdigit()]
    assert codes in ([error.exit_code], [])
    assert codes or issubclass(error, SourceError)


def test_an_error_has_a_hint() -> None:
    error = errors.NotFound("no session", "try another")
    assert (str(error), error.hint) == ("no session", "try another")
    assert errors.Refused("locked").hint == ""


def test_a_source_error_says_where_and_why() -> None:
    error = errors.Forbidden("/x", "permission denied")
    assert (error.source, error.why, str(error)) == ("/x", "permission denied", "/x: permission denied")
    assert error.exit_code == 1


def test_each_kind_of_source_error_has_a_word_of_its_own() -> None:
    kinds = [leaf.kind for leaf in SourceError.__subclasses__() if leaf is not errors.Temporary]
    assert len(set(kinds)) == len(kinds)
    assert set(kinds) == {"gone", "forbidden", "malformed", "unsupported"}


def test_a_temporary_error_is_not_forbidden() -> None:
    """Code that skips what the kernel forbids must not skip a limit that is reached. The word that
    people see is the same."""
    for error, kind in ((errors.Temporary, "forbidden"), (errors.Exhausted, "exhausted")):
        assert not issubclass(error, errors.Forbidden)
        assert error.kind == kind
