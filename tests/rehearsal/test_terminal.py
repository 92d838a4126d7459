"""A program finds a terminal of its own: it can ask it, is typed to, and its end is seen."""

import sys

from agentctl.rehearsal.terminal import Terminal

ENVIRON = {"PATH": "/usr/bin:/bin"}
DEADLINE = 20.0  # seconds: a loaded machine is no failure


def playing(script: str) -> Terminal:
    return Terminal([sys.executable, "-IS", "-c", script], ENVIRON, "/")


def test_what_is_typed_is_heard_and_what_is_said_is_shown() -> None:
    terminal = playing("print('ready'); print(input()[::-1])")
    assert terminal.shows("ready", DEADLINE)
    terminal.type("abc\r")
    assert terminal.shows("cba", DEADLINE)
    assert terminal.process.wait(DEADLINE) == 0
    terminal.close()


def test_it_is_a_terminal_of_its_size_and_the_program_s_own() -> None:
    script = (
        "import os, signal\n"
        "try:\n"
        "    print(os.isatty(0), *os.get_terminal_size())\n"
        "    print(os.tcgetpgrp(os.open('/dev/tty', os.O_RDWR)) == os.getpgrp(), flush=True)\n"
        "    signal.pause()\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    terminal = playing(script)
    assert terminal.shows("True 180 50\nTrue", DEADLINE)
    terminal.type("\x03")
    assert terminal.shows("interrupted", DEADLINE)
    terminal.close()


def test_a_question_is_answered() -> None:
    script = (
        "import sys, tty\n"
        "tty.setraw(0)\n"
        "print('ab\\x1b[6n', end='', flush=True)\n"
        "print(repr(sys.stdin.buffer.raw.read(6)), end='', flush=True)\n"
    )
    terminal = Terminal([sys.executable, "-I", "-c", script], ENVIRON, "/")
    assert terminal.shows(r"abb'\\x1b\[1;3R'", DEADLINE)
    terminal.close()


def test_waiting_ends_with_the_program() -> None:
    terminal = playing("print('last words')")
    assert not terminal.shows("never said", DEADLINE)
    assert terminal.closed
    assert terminal.screen() == "last words"
    terminal.type("to nobody")
    terminal.close()


def test_waiting_ends_with_the_time() -> None:
    terminal = playing("input()")
    assert not terminal.shows("never said", 0.01)
    assert not terminal.closed
    terminal.close()
    assert terminal.process.returncode == -9


def test_a_program_that_is_not_there_is_told_on_the_screen() -> None:
    terminal = Terminal(["/no/such"], ENVIRON, "/")
    assert terminal.shows("No such file or directory", DEADLINE)
    terminal.close()


def test_it_gets_no_variable_of_ours(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("A_SECRET", "of the person")
    terminal = playing("import os; print('got', *sorted(os.environ))")
    assert terminal.shows("got LC_CTYPE PATH|got PATH", DEADLINE)
    terminal.close()
