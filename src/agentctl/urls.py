"""Web addresses: parse http and https URLs, and show them without secrets."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from agentctl.light_typing import NamedTuple


class Address(NamedTuple):
    is_secure: bool
    host: str
    port: int
    target: str  # path and query, as in a request line
    user: str | None = None  # user:password, for basic authentication

    @property
    def authority(self) -> str:
        """Host and port as in a Host header: without a default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_secure else 80) else f"{host}:{self.port}"

    @property
    def may_hold_secret(self) -> bool:
        """True if there is a user, who may have a password, or a query, which may have a token."""
        return self.user is not None or "?" in self.target

    def redact(self) -> str:
        """Return the address without user, password and query."""
        path, mark, _ = self.target.partition("?")
        scheme = "https" if self.is_secure else "http"
        return f"{scheme}://{self.authority}{path}" + ("?…" if mark else "")


def parse_url(url: str) -> Address:
    """Return the parts of the address. Raises ValueError, whose text repeats nothing secret."""
    if any(c <= " " or c > "~" for c in url):
        raise ValueError("a web address has no blanks; write other letters as %C3%A9")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"not a web address: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError("a web address begins with https:// or http://")
    if not parts.hostname:
        raise ValueError("a web address has a host, as in https://example.org/hook")
    is_secure = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    user = unquote(parts.netloc.rpartition("@")[0]) or None
    return Address(is_secure, parts.hostname, port or (443 if is_secure else 80), target, user)


def redact_url(url: str) -> str:
    """Return the address without secrets. Text that is not an address is not repeated."""
    try:
        return parse_url(url).redact()
    except ValueError:
        return "(no web address)"
