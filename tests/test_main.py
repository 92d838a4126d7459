"""The command line as a whole: words, streams, signals and odd places to run in."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl import __version__
from agentctl.state import launch_writes
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.model import Launch
from tests.cli import hostile
from tests.fakes.demo import DemoStage
from tests.running import (
    STRANGER,
    agentctl_as_stranger,
    agentctl_in,
    agentctl_of,
    agentctl_on_a_terminal,
    environ_of,
    open_home,
    read_until,
    started,
)

READ_VERBS = ("list", "status", "why", "peek", "logs")
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def stranger_home() -> Iterator[Path]:
    with open_home() as home:
        yield home


@pytest.mark.parametrize("word", ["-V", "--version", "version"])
def test_version(stage: DemoStage, word: str) -> None:
    assert agentctl_of(stage, word) == (0, f"agentctl {__version__}\n", "")


@pytest.mark.parametrize("words", [("-h",), ("--help",), ("help",)])
def test_help(stage: DemoStage, words: tuple[str, ...]) -> None:
    ran = agentctl_of(stage, *words)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("usage: agentctl [VERB] [OPTIONS]")


def test_without_a_verb_it_lists(stage: DemoStage) -> None:
    stage.start().do("ask")
    assert agentctl_of(stage, "--json").lasting() == agentctl_of(stage, "list", "--json").lasting()
    assert agentctl_of(stage).lines[0] == agentctl_of(stage, "list").lines[0]
    assert (
        agentctl_of(stage, "-a", "--json").lasting()
        == agentctl_of(stage, "list", "-a", "--json").lasting()
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("nosuch",), "agentctl --help lists the verbs"),
        (("lsit",), "did you mean 'list'?"),
        (("statu",), "did you mean 'status'?"),
        (("list", "--adapter", "nosuch"), "known adapters: claude-code, codex, demo, opencode, pi"),
        (("list", "--status", "busy"), "one of: waiting, running, idle, unknown, stopped"),
        (("list", "--status", "waiting,busy"), "one of: waiting, running"),
        (("list", "--status", ","), "one of: waiting, running"),
        (("list", "--since", "yesterday"), "examples: 90s, 15m, 2h, 7d"),
        (("list", "--since", "-1d"), ""),  # what argparse takes for a value depends on its version
        (("list", "--since=-1d"), "examples: 90s"),
        (("list", "--deadline", "never"), "examples: 90s"),
        (("list", "one"), "unrecognized arguments: one"),
        (("--nosuch",), "unrecognized arguments: --nosuch"),
        (("status",), "missing ID"),
        (("status", ""), "an empty id"),
        (("why", " "), "an empty id"),
        (("peek", "x", "-n", "0"), "-n: not a whole number above 0: '0'"),
        (("logs", "x", "-n", "-3"), "-n"),
        (("logs", "x", "-n", "many"), "-n: not a whole number above 0: 'many'"),
        (("help", "nosuch"), "no verb 'nosuch'"),
        (("completion", "tcsh"), "one of: bash, zsh, fish"),
        (("completion",), "one of: bash, zsh, fish"),
    ],
    ids=" ".join,
)
def test_wrong_words_are_a_usage_error(stage: DemoStage, words: tuple[str, ...], hint: str) -> None:
    ran = agentctl_of(stage, *words)
    assert (ran.code, ran.out) == (2, "")
    lines = ran.err.splitlines()
    assert lines[0].startswith("agentctl: ")
    assert len(lines) <= 2
    assert hint in ran.err


@pytest.mark.few(2)
@pytest.mark.parametrize("verb", READ_VERBS[1:])
def test_not_found_and_ambiguous(stage: DemoStage, verb: str) -> None:
    directory = stage.home / ".demo-agent" / "sessions"
    directory.mkdir(parents=True)
    for name in ("twin-a", "twin-b"):
        (directory / f"{name}.jsonl").write_text('{"type": "session", "at": 1.0}\n')
    for words in ((verb, "nosuch"), (verb, "pid:1"), (verb, "nosuch", "--json")):
        ran = agentctl_of(stage, *words)
        assert (ran.code, ran.out) == (3, "")
        assert ran.err.startswith("agentctl: no ")
    ran = agentctl_of(stage, verb, "twin")
    assert (ran.code, ran.out) == (3, "")
    assert "'twin' could be 2 sessions" in ran.err
    assert "twin-a (demo), twin-b (demo)" in ran.err or "twin-b (demo), twin-a (demo)" in ran.err


def test_hostile_words_are_shown_harmless(stage: DemoStage) -> None:
    word = hostile.ALL.replace("\0", "").replace("\ud800", "").replace("\udfff", "")
    for words in ((word,), ("why", word), ("list", "--adapter", word), ("list", f"--{word}")):
        ran = agentctl_of(stage, *words)
        assert ran.code in (2, 3)
        assert hostile.harmful(ran.err) == []
        assert "Traceback" not in ran.err


# streams


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "words", [("list", "-a"), ("list", "--json"), ("help", "list"), ("list", "--help"), ("doctor",)]
)
def test_a_closed_pipe_is_not_an_error(stage: DemoStage, words: tuple[str, ...]) -> None:
    stage.start().do("ask")
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as pipe:
        ran = subprocess.run(
            [sys.executable, "-m", "agentctl", *words],
            env=environ_of(stage),
            cwd=stage.root,
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_head_takes_the_first_line(stage: DemoStage) -> None:
    stage.start()
    command = f"{sys.executable} -m agentctl list -a | head -n 1; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(
        ["bash", "-c", command], env=environ_of(stage), capture_output=True, timeout=60, check=False
    )
    assert ran.stdout.startswith(b"ID ")
    assert ran.stdout.endswith(b"\n0\n")
    assert ran.stderr == b""


def test_a_full_disk_is_reported(stage: DemoStage) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "agentctl", "list", "--json"],
            env=environ_of(stage),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert ran.returncode == 1
    assert ran.stderr == b"agentctl: cannot write the answer: No space left on device\n"


@pytest.mark.few(2)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams(stage: DemoStage, closed: str) -> None:
    stage.start()
    (stage.home / ".demo-agent" / "live" / "1.json").write_text("rubbish")  # something for stderr
    command = f"{sys.executable} -m agentctl list -a {closed}; echo =$?"
    ran = subprocess.run(
        ["bash", "-c", command], env=environ_of(stage), capture_output=True, timeout=60, check=False
    )
    assert ran.stdout.endswith(b"=0\n")  # Python exits with 120 if it cannot flush its output
    assert b"agentctl: demo" not in ran.stdout  # problems never get among the data
    assert b"Traceback" not in ran.stderr


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "encoding",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0"}],
    ids=str,
)
def test_a_terminal_that_knows_ascii_only(stage: DemoStage, encoding: dict[str, str]) -> None:
    puppet = stage.start()
    puppet.do("work")
    hostile.poison(stage, puppet)
    for verb in READ_VERBS:
        words = (verb,) if verb == "list" else (verb, puppet.session_id or "")
        ran = agentctl_of(stage, *words, **encoding, COLUMNS="60")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out
    rows = agentctl_of(stage, "list", PYTHONIOENCODING="ascii", COLUMNS="60").lines
    assert all(len(row) <= 60 for row in rows)


@pytest.mark.slow
def test_no_escapes_but_on_a_terminal_that_wants_them(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("ask")
    for verb in (*READ_VERBS, "doctor"):
        words = (verb,) if verb in ("list", "doctor") else (verb, puppet.session_id or "")
        assert "\x1b" not in agentctl_of(stage, *words, TERM="xterm").out
        assert "\x1b[" in agentctl_on_a_terminal(stage, *words).out
        assert "\x1b" not in agentctl_on_a_terminal(stage, *words, NO_COLOR="1").out
        assert "\x1b" not in agentctl_on_a_terminal(stage, *words, TERM="dumb").out
        if verb != "doctor":
            assert "\x1b" not in agentctl_on_a_terminal(stage, *words, "--json").out


@pytest.mark.parametrize("words", [("list", "--watch"), ("logs", "-f")])
def test_an_interrupt_is_quiet(stage: DemoStage, words: tuple[str, ...]) -> None:
    puppet = stage.start()
    puppet.do("ask")
    more = (puppet.session_id or "",) if "logs" in words else ()
    with started(stage, *words, *more) as child:
        read_until(child, b"\n")
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=20)
        assert (child.returncode, err) == (130, b"")


def test_after_ctrl_c_a_terminal_begins_a_new_line(stage: DemoStage) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "agentctl", "list", "--watch"],
        env=environ_of(stage),
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    try:
        read_until(child, b"no live session")
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 130
        assert os.read(ours, 100) == b"\r\n"
    finally:
        child.kill()
        child.communicate()
        os.close(theirs)
        os.close(ours)


# odd places


@pytest.mark.few(4)
@pytest.mark.parametrize("home", [{}, {"HOME": ""}, {"HOME": "/nonexistent"}], ids=str)
@pytest.mark.parametrize("words", [("list",), ("list", "-a"), ("doctor",), ("why", "x")], ids=" ".join)
@only_root
def test_a_uid_without_a_name(home: dict[str, str], words: tuple[str, ...]) -> None:
    ran = agentctl_as_stranger({"PATH": "/usr/bin:/bin", **home, "AGENTCTL_CONFINE": "NO=BODY"}, *words)
    assert "Traceback" not in ran.err
    assert ran.code == (3 if "why" in words else 0), ran
    if words == ("doctor",) and not home:
        assert "no home directory: nothing is stored between runs" in ran.out
    assert not os.path.exists("/nonexistent")


@pytest.mark.few(2)
@pytest.mark.parametrize("home", ["/nonexistent", "/dev/null", "/etc/passwd", "relative", "/proc/1"])
def test_a_home_that_is_no_directory(stage: DemoStage, home: str) -> None:
    environ = {**environ_of(stage), "HOME": home}
    del environ["AGENTCTL_HOME"]
    for words in (("list",), ("list", "-a"), ("doctor",)):
        ran = agentctl_in(environ, *words, cwd=str(stage.root))
        assert ran.code == 0, ran
        assert "Traceback" not in ran.err
    assert not os.path.exists("/nonexistent")


def _with_sessions(home: Path) -> Path:
    directory = home / ".demo-agent" / "sessions"
    directory.mkdir(parents=True)
    (directory / "old-one.jsonl").write_text('{"type": "session", "at": 1.0, "cwd": "/w"}\n')
    os.utime(directory / "old-one.jsonl", (1e9, 1e9))
    return directory


@only_root
def test_a_read_only_home(stranger_home: Path) -> None:
    """Nothing can be stored there; everything else works."""
    _with_sessions(stranger_home)
    environ = {"HOME": str(stranger_home), "PATH": "/usr/bin:/bin", "AGENTCTL_CONFINE": "NO=BODY"}
    for words in (("list", "-a"), ("list", "-a", "--json"), ("status", "old"), ("doctor",)):
        ran = agentctl_as_stranger(environ, *words)
        assert (ran.code, ran.err) == (0, "")
        assert "old-one" in ran.out or words == ("doctor",)
    assert not (stranger_home / ".agentctl").exists()


@only_root
def test_labels_in_a_read_only_home(stranger_home: Path) -> None:
    _with_sessions(stranger_home)
    state = stranger_home / ".agentctl"
    note = Launch("1", ProcessIdentity("b", 1, 2), "old-one", name="a label")
    launch_writes.begin_launch(str(state / "state.db"), note)
    for path, mode in ((state, 0o500), (state / "state.db", 0o400)):
        os.chown(path, STRANGER, STRANGER)
        path.chmod(mode)
    environ = {"HOME": str(stranger_home), "PATH": "/usr/bin:/bin", "AGENTCTL_CONFINE": "NO=BODY"}
    ran = agentctl_as_stranger(environ, "list", "-a")
    assert (ran.code, ran.err) == (0, "")
    assert "a label" in ran.out
    assert f"{state} is read-only: nothing new is stored" in agentctl_as_stranger(environ, "doctor").out
    log = state / "state.db-wal"  # another process has not finished its write: a problem, not overlooked
    log.write_text("x")
    ran = agentctl_as_stranger(environ, "list", "-a")
    assert ran.code == 0
    assert "its directory is read-only, and its log is not yet written back" in ran.err


@only_root
def test_a_directory_that_is_forbidden(stranger_home: Path) -> None:
    directory = _with_sessions(stranger_home)
    directory.chmod(0)
    environ = {"HOME": str(stranger_home), "PATH": "/usr/bin:/bin", "AGENTCTL_CONFINE": "NO=BODY"}
    ran = agentctl_as_stranger(environ, "list", "-a")
    assert ran.code == 0
    assert f"agentctl: demo: forbidden: permission denied ({directory})" in ran.err
    ran = agentctl_as_stranger(environ, "list", "-a", "--json")
    assert {"adapter": "demo", "kind": "forbidden"}.items() <= ran.json()["problems"][0].items()
    ran = agentctl_as_stranger(environ, "why", "old")
    assert ran.code == 3
    assert str(directory) in ran.err
    ran = agentctl_as_stranger(environ, "doctor")
    assert ran.code == 1
    assert str(directory) in ran.out
    assert "Traceback" not in ran.err


@only_root
def test_a_forbidden_state_directory_costs_labels_and_says_so(stranger_home: Path) -> None:
    _with_sessions(stranger_home)
    state = stranger_home / ".agentctl"
    state.mkdir(mode=0o700)
    environ = {"HOME": str(stranger_home), "PATH": "/usr/bin:/bin", "AGENTCTL_CONFINE": "NO=BODY"}
    ran = agentctl_as_stranger(environ, "list", "-a")
    assert ran.code == 0
    assert "old-one" in ran.out
    assert f"agentctl: forbidden: permission denied ({state}/state.db)" in ran.err


def test_a_directory_that_is_gone(stage: DemoStage, tmp_path: Path) -> None:
    """Run from a directory that was deleted under our feet."""
    place = tmp_path / "gone"
    place.mkdir()
    command = f"rmdir {place}; exec {sys.executable} -m agentctl list --cwd ."
    ran = subprocess.run(
        ["bash", "-c", command],
        env=environ_of(stage),
        cwd=place,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.startswith(b"agentctl: the current directory was deleted\n"), ran.stderr
