"""The service's file: every value reads back as it was, and the daemon sees what its askers see."""

import os
import plistlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from agentctl.daemon_client import install
from agentctl.errors import UsageError

AWKWARD = '/home/a b/100%h/"quoted"/back\\slash/$HOME/it\'s/ä'
COMMAND = ["/usr/bin/python3", "-P", "-c", 'import sys; print("%s" % 1)', AWKWARD]
ENVIRON = {"AGENTCTL_HOME": AWKWARD, "PATH": "/usr/bin:/bin"}


def _read_back(line: str) -> list[str]:
    """The words of a line as systemd.syntax(7) reads them, specifiers and variables resolved."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    plain = [re.sub(r"\\(.)", lambda m: {"t": "\t"}.get(m[1], m[1]), word) for word in words]
    return [_undoubled(word, "%") for word in plain]


def _undoubled(word: str, sign: str) -> str:
    """A single one would mean something to systemd."""
    assert word.count(sign) == 2 * word.count(sign * 2), word
    return word.replace(sign * 2, sign)


def test_a_unit_reads_back() -> None:
    unit = install.unit(AWKWARD, COMMAND, ENVIRON).splitlines()
    (command,) = [line for line in unit if line.startswith("ExecStart=")]
    assert [_undoubled(word, "$") for word in _read_back(command)] == COMMAND
    told = [_read_back(line)[0] for line in unit if line.startswith("Environment=")]
    assert told == [f"{name}={value}" for name, value in ENVIRON.items()]


def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")

    def verified(text: str) -> tuple[int, str]:
        path = tmp_path / "agentctl-test.service"
        path.write_text(text)
        command = ["systemd-analyze", "--user", "--man=no", "verify", str(path)]
        # It looks at the machine's own units too: their sockets need a short name.
        with tempfile.TemporaryDirectory(dir="/tmp") as runtime:
            environ = {**os.environ, "XDG_RUNTIME_DIR": runtime, "HOME": str(tmp_path)}
            ran = subprocess.run(
                command, env=environ, capture_output=True, text=True, check=False, timeout=60
            )
        return ran.returncode, ran.stderr

    unit = install.unit(AWKWARD, ["/bin/sh", "-c", "true", AWKWARD], ENVIRON)
    assert verified(unit) == (0, "")
    assert verified(unit.replace("LockPersonality", "LockPersonalty")) != (0, ""), "it does look"


@pytest.mark.parametrize(
    "setting", ["Private", "Protect", "Bind", "ReadOnly", "Inaccessible", "RootDirectory", "MemoryDeny"]
)
def test_it_sees_what_its_askers_see(setting: str) -> None:
    assert f"\n{setting}" not in install.unit("/h", COMMAND, ENVIRON)


def test_it_restarts_but_not_in_another_s_way() -> None:
    unit = install.unit("/h", COMMAND, ENVIRON)
    assert "\nRestart=on-failure\n" in unit
    assert "\nRestartPreventExitStatus=4\n" in unit
    assert "/h/daemon.sock" in unit


@pytest.mark.parametrize("bad", ["/a\nExecStart=/bin/rm", "/a\0b", "/a\udcff", "/a\rb", "/a\x1b[2J"])
def test_what_no_line_can_hold_is_refused(bad: str) -> None:
    with pytest.raises(UsageError, match="no service can be told"):
        install.unit(bad, COMMAND, ENVIRON)
    with pytest.raises(UsageError):
        install.unit("/h", COMMAND, {"PATH": bad})
    with pytest.raises(UsageError):
        install.plist("dev.agentctl", bad, COMMAND, ENVIRON)


def test_a_plist_reads_back() -> None:
    text = install.plist("dev.agentctl", AWKWARD + "<&>", COMMAND, ENVIRON)
    told = plistlib.loads(text.encode())
    assert told["ProgramArguments"] == COMMAND
    assert told["EnvironmentVariables"] == ENVIRON
    assert (told["Label"], told["RunAtLoad"]) == ("dev.agentctl", True)
    assert told["KeepAlive"] == {"SuccessfulExit": False}
    assert told["StandardErrorPath"] == AWKWARD + "<&>/daemon.err"


def test_each_home_has_a_name_of_its_own() -> None:
    assert install.name("/home/me/.agentctl", usual=True) == "agentctl"
    names = {install.name(home, usual=False) for home in ("/a/x", "/b/x", "/a/x y", "/a/x%y", "/")}
    assert len(names) == 5
    assert all(re.fullmatch(r"agentctl-[A-Za-z0-9-]+", name) for name in names)


def test_it_carries_where_agents_keep_their_files_and_no_secrets() -> None:
    environ = {
        "PATH": "/bin",
        "CODEX_HOME": "/c",
        "OPENAI_API_KEY": "x",
        "AGENTCTL_HOME": "/h",
        "PWD": "/",
    }
    assert install.carried(environ, "/h", usual=False) == {
        "AGENTCTL_HOME": "/h",
        "PATH": "/bin",
        "CODEX_HOME": "/c",
    }
    assert "AGENTCTL_HOME" not in install.carried(environ, "/h", usual=True)
