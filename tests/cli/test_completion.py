"""Completion scripts for three shells: their content, that the shells parse them, what they offer."""

import shutil
import subprocess
from pathlib import Path

import pytest

from agentctl.adapters.registry import BUILT_IN
from agentctl.cli import completion
from agentctl.cli.catalogue import VERBS
from agentctl.cli.verbs import wait
from agentctl.truth.model import STATUSES

# Asks bash for what it would offer after these words; `agentctl` itself answers with two ids.
_ASK_BASH = """
agentctl() { touch asked; echo 4f2a0000 51bb0000; }
source "$1"; shift
COMP_WORDS=(agentctl "$@")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
_agentctl
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(params=completion.SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return name


def _write_script(directory: Path, shell: str) -> str:
    path = directory / f"agentctl.{shell}"
    path.write_text(completion.script(shell))
    return str(path)


def test_the_shell_parses_the_script(shell: str, tmp_path: Path) -> None:
    child = subprocess.run(
        [shell, "-n", _write_script(tmp_path, shell)], capture_output=True, timeout=20, check=False
    )
    assert (child.returncode, child.stderr) == (0, b"")


@pytest.mark.parametrize("name", completion.SHELLS)
def test_the_script_has_every_verb_and_option(name: str) -> None:
    script = completion.script(name)
    for place in completion.places():
        assert place in script
        for option in completion.options(place):
            for flag in option.flags:
                word = flag.lstrip("-") if name == "fish" else flag
                assert word in script, (place, flag)


def _complete(directory: Path, *words: str) -> list[str]:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    shell = subprocess.run(
        ["bash", "--norc", "-c", _ASK_BASH, "bash", _write_script(directory, "bash"), *words],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        cwd=directory,
    )
    assert (shell.returncode, shell.stderr) == (0, "")
    return shell.stdout.split()


def test_bash_offers_verbs(tmp_path: Path) -> None:
    assert _complete(tmp_path, "") == list(VERBS)
    assert _complete(tmp_path, "lo") == ["logs", "lock", "locks"]


def test_bash_offers_options(tmp_path: Path) -> None:
    assert _complete(tmp_path, "list", "--s") == ["--since", "--status"]
    assert {"-f", "--follow", "-n", "--json"} <= set(_complete(tmp_path, "logs", "-"))
    assert _complete(tmp_path, "demo", "--f") == ["--fast"]


def test_bash_offers_commands_and_their_options(tmp_path: Path) -> None:
    assert _complete(tmp_path, "daemon", "st") == ["status", "start", "stop"]
    assert _complete(tmp_path, "daemon", "-") == ["-h", "--help", "--json"]
    assert _complete(tmp_path, "daemon", "logs", "-") == ["-h", "--help", "-f", "--follow", "-n"]
    assert _complete(tmp_path, "daemon", "start", "--fo") == ["--foreground"]


def test_bash_offers_values(tmp_path: Path) -> None:
    assert _complete(tmp_path, "list", "--status", "") == list(STATUSES)
    assert _complete(tmp_path, "list", "--status", "w") == ["waiting"]
    assert _complete(tmp_path, "wait", "--for", "") == list(wait.STATES)
    assert "claude-code" in _complete(tmp_path, "list", "--adapter", "c")
    assert _complete(tmp_path, "completion", "z") == ["zsh"]
    assert _complete(tmp_path, "help", "pe") == ["peek"]
    (tmp_path / "somewhere").mkdir()
    assert _complete(tmp_path, "list", "--cwd", "some") == ["somewhere"]


def test_bash_offers_directories_where_one_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "somewhere").mkdir()
    assert _complete(tmp_path, "unlock", "some") == ["somewhere"]
    assert _complete(tmp_path, "lock", "acquire", "") == ["somewhere"]
    assert _complete(tmp_path, "lock", "rel") == ["release"]
    assert _complete(tmp_path, "worktree", "list", "some") == ["somewhere"]
    assert _complete(tmp_path, "list", "some") == []


def test_bash_offers_files_where_one_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "task.md").touch()
    (tmp_path / "some where").mkdir()
    assert _complete(tmp_path, "launch", "demo", "--prompt-file", "ta") == ["task.md"]
    assert _complete(tmp_path, "launch", "--matrix", "ta") == ["task.md"]
    assert _complete(tmp_path, "launch", "--worktree", "so") == [
        "some",
        "where",
    ]  # one word: see _ASK_BASH
    assert _complete(tmp_path, "launch", "--worktree", "ta") == []


def test_bash_offers_no_option_where_a_word_is_wanted(tmp_path: Path) -> None:
    assert _complete(tmp_path, "launch", "") == list(BUILT_IN)
    assert _complete(tmp_path, "config", "") == ["list", "init", "path"]
    assert _complete(tmp_path, "launch", "demo", "--name", "") == []
    assert _complete(tmp_path, "launch", "demo", "-p", "--") == []
    assert set(_complete(tmp_path, "stop", "")) == {"4f2a0000", "51bb0000"}
    assert "--json" in _complete(tmp_path, "list", "")  # nothing else could come


def test_resume_offers_ended_sessions() -> None:
    for shell in completion.SHELLS:
        lines = completion.script(shell).splitlines()
        assert all("resume" in line for line in lines if "completion --ended" in line), shell
        assert any("completion --ended" in line for line in lines), shell


def test_bash_offers_groups(tmp_path: Path) -> None:
    assert _complete(tmp_path, "compare", "4") == ["4f2a0000"]
    assert _complete(tmp_path, "list", "--group", "5") == ["51bb0000"]
    assert "--groups" in completion.GROUPS


@pytest.mark.parametrize("verb", [verb for verb in VERBS if completion.takes_id(verb)])
def test_bash_offers_live_ids(tmp_path: Path, verb: str) -> None:
    assert _complete(tmp_path, verb, "4") == ["4f2a0000"]
    assert {"4f2a0000", "51bb0000"} <= set(_complete(tmp_path, verb, ""))
    (tmp_path / "asked").unlink()
    assert "4f2a0000" not in _complete(tmp_path, verb, "-")
    assert not (tmp_path / "asked").exists()  # an option is completed without asking for ids


def test_verbs_without_a_session_offer_no_ids(tmp_path: Path) -> None:
    assert _complete(tmp_path, "list", "4") == []
    assert _complete(tmp_path, "webhook", "retry", "4") == []


def test_fish_offers_verbs_values_and_ids(tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    ask = (
        f"function agentctl; echo 4f2a0000; end; source {_write_script(tmp_path, 'fish')}; "
        "complete -C 'agentctl log'; complete -C 'agentctl list --status w'; "
        "complete -C 'agentctl why 4'"
    )
    child = subprocess.run(
        ["fish", "--no-config", "-c", ask],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert child.stderr == ""
    assert [line.split("\t")[0] for line in child.stdout.splitlines()] == ["logs", "waiting", "4f2a0000"]


def test_zsh_loads_the_script(tmp_path: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    script = _write_script(tmp_path, "zsh")
    ask = f"autoload -Uz compinit; compinit -u; source {script}; print $_comps[agentctl]"
    child = subprocess.run(
        ["zsh", "-f", "-c", ask],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "ZDOTDIR": str(tmp_path)},
    )
    assert (child.stdout, child.stderr) == ("_agentctl\n", "")


def test_zsh_repeats_ids_for_verbs_that_take_several() -> None:
    lines = completion.script("zsh").splitlines()
    assert "'*:session:" in next(line for line in lines if line.lstrip().startswith("'stop')"))
    assert "'1:session:" in next(line for line in lines if line.lstrip().startswith("'why')"))
