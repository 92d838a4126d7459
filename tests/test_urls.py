"""Web addresses: what one must look like, and how it may be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.urls import Address, parse_url, redact_url


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
    assert parse_url(url) == address


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
    assert redact_url(url) == eyes


@pytest.mark.parametrize(
    "url", ["", "x", "file:///x", "http://", "http://h:99999/", "http://h/\r\nX: y"]
)
def test_no_address(url: str) -> None:
    with pytest.raises(ValueError, match=r"not a web address|a web address (begins|has)"):
        parse_url(url)


@given(
    st.text()
    | st.text().map("https://".__add__)
    | st.text("a:@/?#[]%", max_size=20).map("http://".__add__)
)
def test_anything_is_an_address_or_one_clear_error(url: str) -> None:
    try:
        address = parse_url(url)
    except ValueError:
        return
    assert address.host
    assert 0 <= address.port <= 65535
    assert not set(address.target) & set("\r\n ")


def test_what_may_hold_a_secret() -> None:
    assert parse_url("https://me:1@e.org/").may_hold_secret
    assert parse_url("https://me@e.org/").may_hold_secret
    assert parse_url("https://e.org/?t=1").may_hold_secret
    assert not parse_url("https://e.org/x").may_hold_secret
