import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.adapters.environment import NAMES, PREFIXES, scrubbed

# What a tool of Claude Code 2.1.325 finds in its environment, without the person's own.
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


@pytest.mark.parametrize("told", [CLAUDE_TOOL, PI_TOOL])
def test_what_an_outer_agent_told_its_tool_goes(told: dict[str, str]) -> None:
    left, removed = scrubbed({**INTENT, **told})
    assert left == INTENT
    assert removed == sorted(told)


@pytest.mark.parametrize(
    "name", ["CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_MANAGED_BY_NPM", "CODEX_THREAD_ID", "OPENCODE"]
)
def test_marks_of_others_go(name: str) -> None:
    assert scrubbed({"HOME": "/h", name: "1"}) == ({"HOME": "/h"}, [name])


def test_a_persons_own_editor_stays() -> None:
    own = {"GIT_EDITOR": "true", "COREPACK_ENABLE_AUTO_PIN": "0"}
    assert scrubbed(own) == (own, [])
    left, _ = scrubbed({"GIT_EDITOR": "vim", "CLAUDECODE": "1"})
    assert left == {"GIT_EDITOR": "vim"}


MARKS = st.sampled_from(sorted(frozenset().union(*NAMES.values())))
NAME = st.text(min_size=1) | MARKS | st.sampled_from(PREFIXES) | st.sampled_from(sorted(INTENT))


@given(st.dictionaries(NAME, st.sampled_from(["", "0", "1", "true", "x"])))
def test_nothing_is_lost_or_changed_and_twice_is_once(environ: dict[str, str]) -> None:
    left, removed = scrubbed(environ)
    assert {**left, **{name: environ[name] for name in removed}} == environ
    assert set(left).isdisjoint(removed)
    assert scrubbed(left) == (left, [])
