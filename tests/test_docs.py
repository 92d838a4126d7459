"""The docs describe what exists: links resolve, generated pages are fresh, commands exist."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentctl.cli.catalogue import VERBS

ROOT = Path(__file__).parent.parent
ARCHITECTURE = ROOT / "docs" / "architecture.md"
SOURCE = ROOT / "src" / "agentctl"
PACKAGES = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
COMMAND = re.compile(r"(?:^\$ |`)agentctl ([a-z]+)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    broken = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    used = set(COMMAND.findall(page.read_text(encoding="utf-8")))
    assert used <= set(VERBS)


def test_generated_pages_are_fresh() -> None:
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0


def test_the_readme_shows_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text


def test_no_path_of_a_developer_s_machine() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    private = re.compile(r"(?<![\w/~.])/(?:work|root)/[a-z.]")
    for name in listed.stdout.split():
        path = ROOT / name
        if path.suffix in {".md", ".py", ".toml", ".yml"} and path.exists() and path != Path(__file__):
            assert not private.search(path.read_text(encoding="utf-8")), name


def test_the_architecture_page_shows_the_layers_that_are_checked() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    assert "\n".join(["```", *contract["layers"], "```"]) in ARCHITECTURE.read_text(encoding="utf-8")


def test_the_architecture_page_names_every_package() -> None:
    page = ARCHITECTURE.read_text(encoding="utf-8")
    assert {name for name in PACKAGES if f"`{name}/`" not in page} == set()


def test_the_architecture_page_names_modules_that_exist() -> None:
    names = re.findall(r"\b[a-z_]+/[a-z_/]+[a-z]", ARCHITECTURE.read_text(encoding="utf-8"))
    ours = {name for name in names if name.partition("/")[0] in PACKAGES}
    assert "truth/judge" in ours
    assert {
        name for name in ours if not ((SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file())
    } == set()
