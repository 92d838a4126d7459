"""A program has a terminal of its own: it can query it, and it is typed to until it ends."""

import sys

from agentctl.rehearsal.terminal import Terminal

ENVIRON = {"PATH": "/usr/bin:/bin"}
DEADLINE = 20.0  # seconds: a loaded machine is no failure


def start_program(script: str) -> Terminal:
    return Terminal([sys.executable, "-IS", "-c", script], ENVIRON, "/")


def test_the_program_reads_what_is_typed_and_its_output_is_on_the_screen() -> None:
    terminal = start_program("print('ready'); print(input()[::-1])")
    assert terminal.wait_for("ready", DEADLINE)
    terminal.type("abc\r")
    assert terminal.wait_for("cba", DEADLINE)
    assert terminal.process.wait(DEADLINE) == 0
    terminal.close()


def test_it_is_a_terminal_of_its_size_and_the_program_s_own() -> None:
    script = (
        "import os, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"  # it may come before the wait
        "print(os.isatty(0), *os.get_terminal_size())\n"
        "print(os.tcgetpgrp(os.open('/dev/tty', os.O_RDWR)) == os.getpgrp(), flush=True)\n"
        "signal.sigwait([signal.SIGINT])\n"
        "print('interrupted')\n"
    )
    terminal = start_program(script)
    assert terminal.wait_for("True 180 50\nTrue", DEADLINE)
    terminal.type("\x03")
    assert terminal.wait_for("interrupted", DEADLINE)
    terminal.close()


def test_a_question_is_answered() -> None:
    script = (
        "import sys, tty\n"
        "tty.setraw(0)\n"
        "print('ab\\x1b[6n', end='', flush=True)\n"
        "print(repr(sys.stdin.buffer.raw.read(6)), end='', flush=True)\n"
    )
    terminal = Terminal([sys.executable, "-I", "-c", script], ENVIRON, "/")
    assert terminal.wait_for(r"abb'\\x1b\[1;3R'", DEADLINE)
    terminal.close()


def test_waiting_ends_with_the_program() -> None:
    terminal = start_program("print('last words')")
    assert not terminal.wait_for("never said", DEADLINE)
    assert terminal.is_closed
    assert terminal.read_screen() == "last words"
    terminal.type("to no program")
    terminal.close()


def test_waiting_ends_with_the_time() -> None:
    terminal = start_program("input()")
    assert not terminal.wait_for("never said", 0.01)
    assert not terminal.is_closed
    terminal.close()
    assert terminal.process.returncode == -9


def test_a_missing_program_is_reported_on_the_screen() -> None:
    terminal = Terminal(["/no/such"], ENVIRON, "/")
    assert terminal.wait_for("No such file or directory", DEADLINE)
    terminal.close()


def test_it_gets_no_variable_of_ours(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("A_SECRET", "of the person")
    terminal = start_program("import os; print('got', *sorted(os.environ))")
    assert terminal.wait_for("got LC_CTYPE PATH|got PATH", DEADLINE)
    terminal.close()
