"""The docs speak of what is there: links resolve, generated pages are fresh, commands exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.cli.catalogue import VERBS

ROOT = Path(__file__).parent.parent
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
