"""Web addresses that a person gives us: what one must look like, and how it may be shown."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, urlsplit


class Address(NamedTuple):
    secure: bool
    host: str
    port: int
    target: str  # path and query, as a request line has them
    user: str | None = None  # user:password, for basic authentication

    @property
    def authority(self) -> str:
        """As a Host header has it: without the port that is understood."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    @property
    def secret(self) -> bool:
        """Whether it may hold one: a user with a password, or a token in its query."""
        return self.user is not None or "?" in self.target

    def shown(self) -> str:
        """Without what may be a secret: user, password and query."""
        path, asked, _ = self.target.partition("?")
        scheme = "https" if self.secure else "http"
        return f"{scheme}://{self.authority}{path}" + ("?…" if asked else "")


def parsed(url: str) -> Address:
    """Raises ValueError, in words that repeat nothing secret."""
    if any(c <= " " or c > "~" for c in url):
        raise ValueError("a web address has no blanks, and other letters are written %C3%A9")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"not a web address: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError("an address that begins with https:// or http:// is wanted")
    if not parts.hostname:
        raise ValueError("an address with a host is wanted, as in https://example.org/hook")
    secure = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    user = unquote(parts.netloc.rpartition("@")[0]) or None
    return Address(secure, parts.hostname, port or (443 if secure else 80), target, user)


def shown(url: str) -> str:
    """For a person's eyes; what is no address is not repeated."""
    try:
        return parsed(url).shown()
    except ValueError:
        return "(no web address)"
