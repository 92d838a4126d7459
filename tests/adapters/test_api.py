"""The adapter that docs/adapters/write-one.md builds runs, and passes the contract suite. It is a third
party's: the daemon answers for it as for a built-in one."""

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.adapters import api, registry
from agentctl.testing import Stage
from agentctl.testing.player import Player
from tests.daemon.serving import daemon_of
from tests.running import SOURCES, Ran, agentctl_in, environ_of
from tests.third_party import install

PAGE = Path(__file__).parents[2] / "docs" / "adapters" / "write-one.md"
FILE = re.compile(r"```python\n# (\S+\.py)\n(.*?)```", re.DOTALL)
ENTRY_POINT = re.compile(r"^mine = \"(\S+)\"$", re.MULTILINE)
# Notes which processes import the package.
INIT = """
import os
with open(__file__ + ".pids", "a") as pids:
    pids.write(f"{os.getpid()}\\n")
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The files of the page, installed as pip installs them."""
    text = PAGE.read_text(encoding="utf-8")
    (target,) = ENTRY_POINT.findall(text)
    modules = {"mine_agentctl/__init__.py": INIT, **dict(FILE.findall(text))}
    assert len(modules) == 4
    site = tmp_path / "site"
    install(site, f"[agentctl.adapters]\nmine = {target}\n", modules)
    return site


@pytest.fixture
def stage(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """The stage of the page, with its fake agent on the PATH."""
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(registry, "_imported", {})
    try:
        stage: Stage = importlib.import_module("test_mine").MineStage(tmp_path / "stage")
        stage.install()
        stage.environ["PYTHONPATH"] = f"{site}:{SOURCES}"
        yield stage
        stage.close()
    finally:
        for name in ("test_mine", "mine_agentctl", "mine_agentctl.agent", "mine_agentctl.adapter"):
            sys.modules.pop(name, None)


def run(stage: Stage, *words: str) -> Ran:
    """Run agentctl in a new interpreter, with the package on its path."""
    environ = environ_of(stage, PYTHONPATH=stage.environ["PYTHONPATH"])
    return agentctl_in(environ, *words, cwd=str(stage.root), before=["env"])


def importers(site: Path) -> set[int]:
    return {int(pid) for pid in (site / "mine_agentctl" / "__init__.py.pids").read_text().split()}


def test_the_adapter_of_the_page_passes_the_contract_suite(site: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    ran = subprocess.run(
        command, cwd=site, env=environ, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^\d+ passed", ran.stdout, re.MULTILINE), ran.stdout


def test_the_agent_of_the_page_is_launched_stopped_and_resumed(stage: Stage) -> None:
    ran = run(stage, "launch", "mine", "--prompt", "hang", "--cwd", str(stage.work))
    assert ran.code == 0, ran.err
    session_id = ran.out.strip()
    assert stage.session(session_id).verdict.status == "running"
    assert run(stage, "stop", session_id).code == 0
    assert stage.session(session_id).verdict.status == "stopped"
    assert run(stage, "resume", session_id, "--prompt", "hang").out.strip() == session_id
    assert stage.session(session_id).verdict.status == "running"


def test_the_daemon_answers_for_it(stage: Stage, site: Path) -> None:
    puppet = stage.start()
    alone = run(stage, "list", "--json")
    assert importers(site) - {os.getpid()}, "without a daemon the command imports it"
    daemon = daemon_of(stage, PYTHONPATH=stage.environ["PYTHONPATH"])
    (site / "mine_agentctl" / "__init__.py.pids").write_text("")
    ran = run(stage, "list", "--json")
    assert importers(site) <= {daemon.pid}, "the command asks the daemon"
    assert (ran.code, ran.err) == (0, "")
    for each in (alone, ran):
        assert [session["id"] for session in each.json()["sessions"]] == [puppet.session_id]


def test_the_api_has_no_other_names_than_it_lists() -> None:
    names = {name for name in vars(api) if not name.startswith("_") and name != "annotations"}
    assert names == set(api.__all__)


def test_agentctl_itself_does_not_import_the_api() -> None:
    sources = Path(api.__file__).parents[1].rglob("*.py")
    users = [path for path in sources if "agentctl.adapters.api import" in path.read_text("utf-8")]
    assert users == [Path(api.__file__)]  # the example in its docstring


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("look", api.Look({}, {}, 0.0)),
        ("Command", api.Command),
        ("Facts", api.Facts),
        ("LaunchRequest", api.LaunchRequest),
        ("Player", Player),
        ("Stage", Stage),
        ("StopPlan", api.StopPlan),
        ("api", api),
    ],
)
def test_the_page_has_only_names_that_exist(name: str, owner: object) -> None:
    names = set(re.findall(rf"\b{name}\.(\w+)", PAGE.read_text(encoding="utf-8")))
    assert names, f"the page no longer names anything of {name}"
    assert names - set(dir(owner)) == set()
