"""The installer of the measured tools, with a wheel made here and no network."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from tests.real.accuracy.fetch import Pin, install, main, pins
from tests.real.install import Failed
from tests.real.pins import ELSEWHERE, STAMP


def wheel(folder: Path) -> str:
    """A tool of one file that cannot be imported: to install it must not run it. Returns its hash."""
    folder.mkdir()
    path = folder / "tiny_tool-1.0-py3-none-any.whl"
    about = "tiny_tool-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_tool.py", "raise SystemExit('it was run')\n")
        # its dependency does not exist, and is not installed
        archive.writestr(
            f"{about}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-tool\nVersion: 1.0\nRequires-Dist: not-to-be-had\n",
        )
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/entry_points.txt", "[console_scripts]\ntiny-tool = tiny_tool:main\n")
        archive.writestr(f"{about}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pin:
    sha256 = wheel(tmp_path / "wheels")
    monkeypatch.setenv(ELSEWHERE, str(tmp_path / "agents"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return Pin("tiny", "pypi", "tiny-tool", "1.0", "MIT", sha256)


@pytest.mark.slow
def test_an_install_brings_the_tool_and_nothing_else(tiny: Pin, tmp_path: Path) -> None:
    assert not tiny.installed
    install(tiny)
    assert tiny.installed
    assert tiny.commands == tmp_path / "agents/tools/tiny/bin"
    assert (tiny.commands / "tiny-tool").exists()
    assert not tiny._replace(version="1.1").installed, "another version is another tool"


def test_a_wheel_with_another_hash_is_refused(tiny: Pin) -> None:
    changed = tiny._replace(sha256="0" * 64)
    with pytest.raises(Failed, match=r"(?i)hash"):
        install(changed)
    assert not changed.installed


@pytest.mark.slow
def test_an_unfinished_install_is_repeated(tiny: Pin) -> None:
    install(tiny)
    (tiny.place / STAMP).unlink()
    (tiny.commands / "tiny-tool").unlink()
    install(tiny)
    assert (tiny.commands / "tiny-tool").exists()


def test_an_unknown_registry_is_named(tiny: Pin) -> None:
    with pytest.raises(Failed, match="npm"):
        install(tiny._replace(registry="npm"))


@pytest.mark.slow
def test_each_tool_that_cannot_be_fetched_is_named(
    tiny: Pin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 2
    output = capsys.readouterr().err
    assert all(f"{pin.name} {pin.version} is not measured: " in output for pin in pins().values())


def test_every_pin_is_exact() -> None:
    for pin in pins().values():
        assert pin.registry == "pypi"
        assert len(pin.sha256) == 64
        assert pin.licence
