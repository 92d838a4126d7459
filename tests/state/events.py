"""The events that a test caused."""

from agentctl.state import journal


def read_event_types(path: str) -> list[str]:
    return [event.type for event in journal.read_after(path, 0)]
