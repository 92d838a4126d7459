"""Looks at the verb, imports that verb and nothing else."""

from __future__ import annotations

import errno
import gc
import os
import sys
from io import TextIOWrapper

from agentctl import __version__

BY_DAEMON = ("list", "status", "why")  # verbs that a daemon may answer, if one runs


def main() -> None:
    """Answers, and is gone: all is written by then, and an interpreter that takes every object apart
    before it ends takes 3 ms for it, after a long list 8."""
    gc.disable()  # until the verb is there: what imports make is in use until the end
    code = answer()
    try:
        sys.stderr.flush()
    except OSError:  # nobody reads it
        pass
    os._exit(code)


def answer() -> int:
    _prepare_streams()
    try:
        try:
            code = dispatch(sys.argv[1:])
        except SystemExit as told:  # argparse, after --help
            code = told.code if isinstance(told.code, int) else 0
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:  # with what a person ought to know who pressed Ctrl-C
        _drop_output()
        if sys.stderr.isatty():
            sys.stderr.write("\n")  # the terminal has written ^C: what follows has its own line
        sys.stderr.write("".join(f"agentctl: {told}\n" for told in interrupt.args))
        return 130
    except BrokenPipeError:  # `agentctl list | head -1` is not an error
        _drop_output()
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG):
            raise
        _drop_output()
        sys.stderr.write(f"agentctl: cannot write the answer: {error.strerror}\n")
        return 1
    return code


def dispatch(arguments: list[str]) -> int:
    first = arguments[0] if arguments else "list"
    if first in ("-V", "--version", "version"):
        sys.stdout.write(f"agentctl {__version__}\n")
        return 0
    if first in ("-h", "--help") or arguments == ["help"]:
        from agentctl.cli.catalogue import help_text

        sys.stdout.write(help_text())
        return 0
    # `agentctl --json` is `agentctl list --json`
    verb, words = ("list", arguments) if first.startswith("-") else (first, arguments[1:])
    home = _daemon_home() if verb in BY_DAEMON else None
    if home is not None:
        from agentctl.cli.fast_client import shown

        code = shown(home, verb, words)
        if code is not None:
            return code
    from agentctl.cli.parser import run

    return run(verb, words)


def _daemon_home() -> str | None:
    """Where a daemon has left its socket. As `paths` tells it, which is dear to import; where that would
    ask whose the home is, no daemon is asked."""
    base = os.environ.get("HOME")
    home = os.environ.get("AGENTCTL_HOME") or (base and f"{base}/.agentctl")
    return home if home and os.path.exists(f"{home}/daemon.sock") else None


def _prepare_streams() -> None:
    """A closed stream swallows; a character that the terminal's encoding lacks is a question mark,
    which keeps its row's width, where an exception would keep nothing."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until we exit
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until we exit
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _drop_output() -> None:
    """Whatever is still unwritten: the interpreter's last flush must not complain about it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
