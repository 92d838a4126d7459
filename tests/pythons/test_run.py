"""The runner itself."""

from tests.pythons.run import ON_THE_NEWEST, PROJECT


def test_the_default_tests_exist() -> None:
    assert [name for name in ON_THE_NEWEST if not list((PROJECT / "tests").glob(name))] == []
