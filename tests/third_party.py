"""Third-party adapters, installed as pip installs them: modules and a dist-info folder."""

from collections.abc import Mapping
from pathlib import Path


def install(
    site: Path, entry_points: str, modules: Mapping[str, str] | None = None, *, version: str = "1.0"
) -> list[str]:
    """Install a package into this directory. Return the module path that has it."""
    package = site / f"other-{version}.dist-info"
    package.mkdir(parents=True)
    (package / "entry_points.txt").write_text(entry_points)
    for name, text in (modules or {}).items():
        (site / name).parent.mkdir(exist_ok=True, parents=True)
        (site / name).write_text(text)
    return [str(site)]
