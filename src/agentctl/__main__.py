"""Looks at the verb, imports that verb and nothing else."""

from __future__ import annotations

import os
import sys

from agentctl import __version__


def main() -> int:
    try:
        code = dispatch(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `agentctl list | head -1` is not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
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
    from agentctl.cli.verb import run

    if first.startswith("-"):  # `agentctl --json` is `agentctl list --json`
        return run("list", arguments)
    return run(first, arguments[1:])


if __name__ == "__main__":
    sys.exit(main())
