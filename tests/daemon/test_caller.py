"""Which callers the daemon answers, and which are sent to look themselves."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentctl.daemon.caller import CallerCheck, InstalledAdapters, parse_caller, read_viewpoint
from agentctl.daemon_client import protocol
from agentctl.errors import Fault
from agentctl.system import clock
from tests.daemon.serving import caller_params
from tests.fakes.demo import DemoStage
from tests.namespaces import unshare
from tests.waiting import until


def test_a_caller_with_other_adapters_looks_itself(stage: DemoStage, tmp_path: Path) -> None:
    place, modules = tmp_path / "installed", InstalledAdapters()
    place.mkdir()
    caller = parse_caller({**caller_params(stage), "path": [*sys.path, str(place)]})
    check = CallerCheck()
    check.shared_modules(caller)
    until(lambda: place.stat().st_ctime < time.time() - clock.GRAIN, "it is old enough")
    assert not modules.in_directory(str(place))
    information = place / "other-1.0.dist-info"
    information.mkdir()
    (information / "entry_points.txt").write_text("[agentctl.adapters]\nother = other:Other\n")
    assert [entry.name for entry in modules.in_directory(str(place))] == ["other"]
    with pytest.raises(Fault, match="other adapters installed"):
        check.shared_modules(caller)


@pytest.mark.parametrize("way", [["-m"], ["-p", "-f"], ["-U", "-r"], ["-T"]], ids=" ".join)
def test_a_caller_in_another_namespace_looks_itself(stage: DemoStage, way: list[str]) -> None:
    program = "print(open('/proc/self/stat').read()); input()"
    with subprocess.Popen(
        [*unshare(*way), sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() != b""
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        pid = int(children[0]) if children else child.pid
        assert read_viewpoint(pid) != read_viewpoint(os.getpid())
        with pytest.raises(Fault, match="another namespace"):
            CallerCheck().check(parse_caller(caller_params(stage)), pid)
        child.communicate(b"\n")


def test_our_parent_is_in_the_same_namespaces() -> None:
    assert read_viewpoint(os.getppid())[1:4] == read_viewpoint(os.getpid())[1:4]


def test_a_caller_that_has_ended_is_not_answered(stage: DemoStage) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(Fault) as fault:
        CallerCheck().check(parse_caller(caller_params(stage)), child.pid)
    assert fault.value.code == protocol.ELSEWHERE
