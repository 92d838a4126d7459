"""The command `agentctl`: import the verb that is asked for and run it, or let the daemon answer."""

from __future__ import annotations

import errno
import gc
import os
import sys
from io import TextIOWrapper

from agentctl import __version__

BY_DAEMON = ("list", "status", "why")  # verbs that a daemon may answer, if one runs


def main() -> None:
    """Run, and exit without cleaning up. All output is written by then, and the interpreter takes 3 ms
    to free every object, 8 ms after a long list."""
    gc.disable()  # until the verb is imported: what imports create is in use until the end
    code = run_command()
    try:
        sys.stderr.flush()
    except OSError:  # the reader is gone
        pass
    os._exit(code)


def run_command() -> int:
    _prepare_streams()
    try:
        try:
            code = dispatch(sys.argv[1:])
        except SystemExit as end:  # argparse, after --help
            code = end.code if isinstance(end.code, int) else 0
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:  # a verb may add what the user should know
        _drop_output()
        if sys.stderr.isatty():
            sys.stderr.write("\n")  # the terminal has written ^C on this line
        sys.stderr.write("".join(f"agentctl: {message}\n" for message in interrupt.args))
        return 130
    except BrokenPipeError:  # `agentctl list | head -1` is fine
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
        from agentctl.cli.fast_client import show_answer

        code = show_answer(home, verb, words)
        if code is not None:
            return code
    from agentctl.cli.runner import run_verb

    return run_verb(verb, words)


def _daemon_home() -> str | None:
    """Return the state directory if a daemon's socket is in it, as `paths.state_directory` does, which
    is slow to import. Without HOME, no daemon is asked."""
    base = os.environ.get("HOME")
    home = os.environ.get("AGENTCTL_HOME") or (base and f"{base}/.agentctl")
    return home if home and os.path.exists(f"{home}/daemon.sock") else None


def _prepare_streams() -> None:
    """Replace a closed stream by /dev/null. Print a question mark for a character that the encoding of
    the terminal lacks: the row keeps its width."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until we exit
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until we exit
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _drop_output() -> None:
    """Discard unwritten output, so that the interpreter's last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
