"""Run tests on other versions of Python: `make test-pythons`.

An interpreter comes from this machine, or from Debian's archive. A version without one is named with the
reason, and fails nothing: not every version is in the archive. Logs are in build/pythons/.

    python -m tests.pythons.run [VERSION…] [-- TESTS AND OTHER WORDS FOR PYTEST…]
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.pythons.debian import Missing, install
from tests.pythons.find import find
from tests.user.report import read

PROJECT = Path(__file__).parents[2]
BUILD = PROJECT / "build" / "pythons"
VERSIONS = ("3.12", "3.13", "3.14")
# What versions differ in: parsing, databases, processes; and on the newest the command line and the
# agents too. TESTS=tests runs all.
DEFAULT = ("system", "truth", "wire", "state", "test_*.py")
ON_THE_NEWEST = (*DEFAULT, "adapters", "cli/test_*.py")


def main(arguments: Sequence[str]) -> int:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    versions, words = arguments[:at] or VERSIONS, arguments[at + 1 :]
    lines, code = [], 0
    for version in versions:
        began = time.monotonic()
        print(f"\n== Python {version}", flush=True)
        try:
            result, failed = test(version, words)
        except Missing as missing:
            result, failed = f"could not run: {missing}", False
        lines.append(f"Python {version}: {result}, {time.monotonic() - began:.0f} s")
        code = code or int(failed)
    print("\n== Pythons", *lines, sep="\n")
    return code


def test(version: str, words: Sequence[str]) -> tuple[str, bool]:
    """Run the tests. Return the counts, and True if a test has failed."""
    python = environment(version)
    report = BUILD / f"{version}.xml"
    report.unlink(missing_ok=True)
    chosen = ON_THE_NEWEST if version == VERSIONS[-1] else DEFAULT
    tests = words or [str(path) for name in chosen for path in sorted((PROJECT / "tests").glob(name))]
    child = subprocess.run(
        [str(python), "-m", "pytest", "-p", "no:cacheprovider", f"--junit-xml={report}", *tests],
        cwd=PROJECT,
        check=False,
    )
    result = read(report)
    return result.counts(), child.returncode != 0 or not result.passed


def environment(version: str) -> Path:
    """Return the Python of a virtual environment with the project and what its tests need."""
    base = find(version, os.environ) or str(install(version, BUILD / version))
    venv = BUILD / f"venv-{version}"
    python = venv / "bin" / "python"
    print(f"{base} -> {os.path.relpath(venv)}", flush=True)
    # Debian's has no pip of its own: ours installs for it.
    subprocess.run([base, "-m", "venv", "--clear", "--without-pip", str(venv)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "--quiet", "--editable", ".", "--group", "test"], cwd=PROJECT, check=True
    )
    return python


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
