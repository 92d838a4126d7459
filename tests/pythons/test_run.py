"""The runner itself."""

from tests.pythons.run import ON_THE_NEWEST, PROJECT


def test_what_is_run_by_default_is_there() -> None:
    assert [name for name in ON_THE_NEWEST if not list((PROJECT / "tests").glob(name))] == []
