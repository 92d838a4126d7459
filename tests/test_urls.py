"""Web addresses: what one must look like, and how it may be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.urls import Address, parsed, shown


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://example.org", Address(True, "example.org", 443, "/")),
        ("http://example.org:8080/a?b=c#d", Address(False, "example.org", 8080, "/a?b=c")),
        ("http://[::1]:81/x", Address(False, "::1", 81, "/x")),
        ("https://me:p%40ss@h/x", Address(True, "h", 443, "/x", "me:p@ss")),
    ],
)
def test_parsed(url: str, address: Address) -> None:
    assert parsed(url) == address


@pytest.mark.parametrize(
    ("url", "eyes"),
    [
        ("https://me:pw@example.org/a?token=1", "https://example.org/a?…"),
        ("http://example.org:80/a", "http://example.org/a"),
        ("http://[::1]:81", "http://[::1]:81/"),
        ("me:pw", "(no web address)"),
    ],
)
def test_shown(url: str, eyes: str) -> None:
    assert shown(url) == eyes


@pytest.mark.parametrize(
    "url", ["", "x", "file:///x", "http://", "http://h:99999/", "http://h/\r\nX: y"]
)
def test_no_address(url: str) -> None:
    with pytest.raises(ValueError, match=r"wanted|not a web address|no blanks"):
        parsed(url)


@given(
    st.text()
    | st.text().map("https://".__add__)
    | st.text("a:@/?#[]%", max_size=20).map("http://".__add__)
)
def test_anything_is_an_address_or_one_clear_error(url: str) -> None:
    try:
        address = parsed(url)
    except ValueError:
        return
    assert address.host
    assert 0 <= address.port <= 65535
    assert not set(address.target) & set("\r\n ")


def test_what_may_hold_a_secret() -> None:
    assert parsed("https://me:1@e.org/").secret
    assert parsed("https://me@e.org/").secret
    assert parsed("https://e.org/?t=1").secret
    assert not parsed("https://e.org/x").secret
