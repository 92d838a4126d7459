"""Every verb in one line."""

from agentctl import cli
from agentctl.cli.catalogue import ALIASES, EXAMPLES, EXIT_CODES, VERBS, help_text
from agentctl.errors import AgentctlError


def test_verbs_and_files_are_the_same() -> None:
    import pkgutil

    from agentctl.cli import verbs

    assert {module.name for module in pkgutil.iter_modules(verbs.__path__)} == set(VERBS) - set(ALIASES)
    assert cli.__doc__


def test_help_lists_every_verb_and_fits_a_terminal() -> None:
    text = help_text()
    for verb, summary in VERBS.items():
        assert f"  {verb:<11} {summary}\n" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    for command, _ in EXAMPLES:
        assert command in text


def test_exit_codes_are_those_of_the_errors() -> None:
    def below(error: type[AgentctlError]) -> set[int]:
        return {error.exit_code}.union(*(below(leaf) for leaf in error.__subclasses__()))

    assert below(AgentctlError) | {0, 130} == {code for code, _ in EXIT_CODES}  # 130: Ctrl-C
