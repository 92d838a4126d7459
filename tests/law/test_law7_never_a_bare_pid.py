"""Law 7: a signal goes through a handle that proves which process receives it; and no status is ever
stored."""

import ast
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentctl
from agentctl.errors import Forbidden, Gone
from agentctl.state import db
from agentctl.system import pidfd, proc
from agentctl.truth.model import STATUSES, Facts, pack_facts
from tests.fakes.stranger import Stranger

SOURCES = sorted(Path(agentctl.__file__).parent.rglob("*.py"))
FORBIDDEN = {"kill", "killpg", "pthread_kill"}
MODULES = {"os", "posix", "signal", "signals"}


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    with Stranger("stranger", {"PATH": "/usr/bin:/bin"}, tmp_path) as stranger:
        yield stranger


def test_the_right_pid_with_a_wrong_start_is_refused(stranger: Stranger) -> None:
    identity = stranger.identity
    for start in (identity.start - 1, identity.start + 1, 0):
        with pytest.raises(Gone, match="another process"):
            pidfd.Handle(identity._replace(start=start))
    assert stranger.process.is_alive


def test_another_boot_is_refused(stranger: Stranger) -> None:
    with pytest.raises(Gone, match="booted since"):
        pidfd.Handle(stranger.identity._replace(boot="another boot"))
    assert proc.find_process(stranger.identity._replace(boot="another boot")) is None


def test_signalling_an_ended_process_raises_gone(stranger: Stranger) -> None:
    identity = stranger.identity
    with pidfd.Handle(identity) as handle:
        assert not handle.wait(0)
        handle.signal(signal.SIGCONT)
        stranger.end()
        assert handle.wait(20)
        with pytest.raises(Gone):
            handle.signal(signal.SIGTERM)
    with pytest.raises(Gone):
        pidfd.Handle(identity)


def test_a_refused_handle_leaves_no_descriptor_open(stranger: Stranger) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        with pytest.raises(Gone):
            pidfd.Handle(stranger.identity._replace(start=1))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_a_signal_that_the_kernel_refuses_is_forbidden(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_error(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("signal.pidfd_send_signal", raise_error)
    with pidfd.Handle(stranger.identity) as handle, pytest.raises(Forbidden):
        handle.signal(signal.SIGTERM)


def find_calls(source: str, names: set[str]) -> Iterator[str]:
    """Yield each use of a name: `os.kill(…)`, `from os import kill`, `getattr(os, "kill")`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in names:
            if isinstance(node.value, ast.Name) and node.value.id in MODULES:
                yield f"{node.lineno}: {node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.lineno}: import {a.name}" for a in node.names if a.name in names)
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr"
        ):
            constants = [a.value for a in node.args if isinstance(a, ast.Constant)]
            yield from (f"{node.lineno}: getattr {name}" for name in constants if name in names)


def test_the_search_finds_each_kind_of_call() -> None:
    bad = 'import os\nos.kill(1, 9)\nfrom os import killpg\ngetattr(os, "kill")(1, 9)\n'
    assert len(list(find_calls(bad, FORBIDDEN))) == 3


def test_no_bare_pid_is_signalled_anywhere() -> None:
    calls_by_path = {str(path): list(find_calls(path.read_text(), FORBIDDEN)) for path in SOURCES}
    assert len(calls_by_path) > 100
    assert {path: bad for path, bad in calls_by_path.items() if bad} == {}


WORDS = {"status", "state", "alive", "activity", "outcome", "verdict", *STATUSES}


def test_no_status_is_stored(tmp_path: Path) -> None:
    """A target may select outcomes to deliver; no row says which outcome a session has."""
    with db.transaction(str(tmp_path / "state.db")) as connection:
        tables = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        for (table,) in tables:
            columns = {row[1] for row in connection.execute(f'pragma table_info("{table}")')}
            assert columns
            assert not WORDS & columns, table
    assert not WORDS & set(Facts._fields)  # all that the cache stores of a file
    assert len(pack_facts(Facts())) == len(Facts._fields)


@pytest.mark.parametrize("package", ["truth", "adapters", "sessions"])
def test_no_code_that_decides_a_status_reads_the_journal(package: str) -> None:
    """The journal records what we reported, for people and deliveries. No status comes from it."""
    root = Path(agentctl.__file__).parent / package
    for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
        assert "journal" not in " ".join(list_imports(path.read_text())), path


def list_imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield f"{getattr(node, 'module', '') or ''} {' '.join(name.name for name in node.names)}"
