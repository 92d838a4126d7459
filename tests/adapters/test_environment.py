from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.adapters.environment import directory_variables, marker_names, scrub
from agentctl.adapters.registry import find_agents
from tests.third_party import install

# What a tool of Claude Code 2.1.325 finds in its environment, without the user's own.
CLAUDE_TOOL = {
    "AI_AGENT": "claude-code_2-1-325_agent", "CLAUDECODE": "1", "CLAUDE_CODE_CHILD_SESSION": "1",
    "CLAUDE_CODE_ENTRYPOINT": "sdk-cli", "CLAUDE_CODE_EXECPATH": "/opt/claude.exe",
    "CLAUDE_CODE_MESSAGING_SOCKET": "/tmp/cc-socks/63.sock", "CLAUDE_CODE_MESSAGING_TOKEN": "x",
    "CLAUDE_CODE_SESSION_ATTENDED": "0", "CLAUDE_CODE_SESSION_ID": "3a2ae4db", "CLAUDE_EFFORT": "medium",
    "CLAUDE_PID": "63", "COREPACK_ENABLE_AUTO_PIN": "0", "GIT_EDITOR": "true",
    "NoDefaultCurrentDirectoryInExePath": "1",
}  # fmt: skip
PI_TOOL = {
    "PI_CODING_AGENT": "true", "AI_AGENT": "pi", "PI_SESSION_ID": "01a1", "PI_SESSION_FILE": "/s.jsonl",
    "PI_PROVIDER": "fake", "PI_MODEL": "fake-1", "PI_REASONING_LEVEL": "off",
}  # fmt: skip
INTENT = {
    "HOME": "/home/user", "PATH": "/usr/bin", "CLAUDE_CONFIG_DIR": "/c", "CLAUDE_CODE_USE_BEDROCK": "1",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "9", "CLAUDE_CODE_OAUTH_TOKEN": "secret",
    "CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS": "5", "ANTHROPIC_API_KEY": "k", "CODEX_HOME": "/x",
    "OPENCODE_CONFIG": "/o", "PI_CODING_AGENT_DIR": "/p", "PI_CODING_AGENT_SESSION_DIR": "/q",
    "PI_OFFLINE": "1", "AGENTCTL_HOME": "/a", "IS_SANDBOX": "1", "OPENAI_API_KEY": "k",
}  # fmt: skip


@pytest.mark.parametrize("markers", [CLAUDE_TOOL, PI_TOOL])
def test_the_markers_of_an_outer_agent_are_removed(markers: dict[str, str]) -> None:
    rest, removed = scrub({**INTENT, **markers})
    assert rest == INTENT
    assert removed == sorted(markers)


@pytest.mark.parametrize(
    "name", ["CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_MANAGED_BY_NPM", "CODEX_THREAD_ID", "OPENCODE"]
)
def test_markers_of_other_agents_are_removed(name: str) -> None:
    assert scrub({"HOME": "/h", name: "1"}) == ({"HOME": "/h"}, [name])


def test_the_editor_of_the_user_stays() -> None:
    own = {"GIT_EDITOR": "true", "COREPACK_ENABLE_AUTO_PIN": "0"}
    assert scrub(own) == (own, [])
    rest, _ = scrub({"GIT_EDITOR": "vim", "CLAUDECODE": "1"})
    assert rest == {"GIT_EDITOR": "vim"}


def test_a_third_party_names_its_own_markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "ADAPTER = 'x:Y'\nMARKERS = frozenset({'MINE_PID'})\nDIRECTORIES = ('MINE_HOME',)\n"
    path = install(tmp_path, "[agentctl.adapters]\nmine = mine_agent\n", {"mine_agent.py": text})
    monkeypatch.syspath_prepend(str(tmp_path))
    assert scrub({"MINE_PID": "1", "MINE_HOME": "/m"}, path) == ({"MINE_HOME": "/m"}, ["MINE_PID"])
    assert "MINE_HOME" in directory_variables(path)
    assert scrub({"MINE_PID": "1"}, []) == ({"MINE_PID": "1"}, [])


def test_variables_that_name_directories() -> None:
    assert directory_variables([]) == (
        "CLAUDE_CONFIG_DIR", "CODEX_HOME", "CODEX_SQLITE_HOME", "OPENCODE_DB", "XDG_CONFIG_HOME",
        "XDG_DATA_HOME", "XDG_STATE_HOME", "PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR",
    )  # fmt: skip


MARKS = st.sampled_from(sorted(marker_names()))
PREFIXES = [prefix for agent in find_agents().values() for prefix in agent.marker_prefixes]
NAME = st.text(min_size=1) | MARKS | st.sampled_from(PREFIXES) | st.sampled_from(sorted(INTENT))


@given(st.dictionaries(NAME, st.sampled_from(["", "0", "1", "true", "x"])))
def test_nothing_is_lost_or_changed_and_twice_is_once(environ: dict[str, str]) -> None:
    rest, removed = scrub(environ)
    assert {**rest, **{name: environ[name] for name in removed}} == environ
    assert set(rest).isdisjoint(removed)
    assert scrub(rest) == (rest, [])
