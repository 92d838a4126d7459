"""Every setting in the tables can be made as its example shows."""

import tomllib
from typing import Any

import pytest

from agentctl.config.keys import ADAPTER_KEYS, KEYS, NOTIFY_EXAMPLES, NOTIFY_KEYS, WEBHOOK_KEYS, Key
from agentctl.config.values import check_value

HOME = {"HOME": "/home/me"}
ALL = {
    f"{section}{name}": key
    for section, keys in (
        ("", KEYS),
        ("adapters.", ADAPTER_KEYS),
        ("webhooks.", WEBHOOK_KEYS),
        ("notify.", NOTIFY_KEYS),
    )
    for name, key in keys.items()
}


@pytest.mark.parametrize("key", ALL.values(), ids=ALL)
def test_every_example_is_valid(key: Key[Any]) -> None:
    check_value(tomllib.loads(f"x = {key.example}")["x"], key, HOME)


def test_each_setting_of_a_notification_is_in_one_example() -> None:
    assert sorted(word for of in NOTIFY_EXAMPLES.values() for word in of) == sorted(NOTIFY_KEYS)


def test_each_key_has_its_own_variable() -> None:
    variables = [key.variable for key in ALL.values() if key.variable]
    assert len(variables) == len(set(variables))
