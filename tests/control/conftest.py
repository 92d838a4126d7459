"""What tests of the control side share."""

from tests.control.repository import repo

__all__ = ["repo"]
