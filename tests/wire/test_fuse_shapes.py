"""Fuses as scripts see them."""

from agentctl.state.fuse import BURNING, FIRED, Action, Claim, Fuse, Moment
from agentctl.system.identity import ProcessIdentity
from agentctl.wire import fuse_shapes

NOW = Moment("boot", 20.0, 2000.0)
ACTIONS = (Action("stop"), Action("webhook", "https://me:secret@example.org/x?token=secret"))


def burning(**more: object) -> Fuse:
    made = Fuse("1a", "/w", None, None, None, "l", ACTIONS, 1000.0, "boot", 50.0, 1050.0, BURNING)
    return made._replace(results=(None, None))._replace(**more)  # type: ignore[arg-type]


def test_every_field_is_described_and_every_described_is_there() -> None:
    shown = fuse_shapes.fuse(burning(), NOW)
    assert list(shown) == [name for name, _, _ in fuse_shapes.FUSE_FIELDS]


def test_when_it_is_due_is_told_by_the_clock_as_it_is_set_now() -> None:
    shown = fuse_shapes.fuse(burning(), NOW)
    assert (shown["due_at"], shown["left_seconds"]) == ("1970-01-01T00:33:50.000Z", 30.0)
    claim = Claim(ProcessIdentity("boot", 7, 8), None)
    over = fuse_shapes.fuse(burning(state=FIRED, settled_at=1060.0, claim=claim), NOW)
    assert (over["due_at"], over["left_seconds"]) == ("1970-01-01T00:17:30.000Z", None)
    assert over["fired_by"] == 7


def test_an_envelope_without_secrets() -> None:
    told = fuse_shapes.fuses([burning()], NOW)
    assert (told["version"], len(told["fuses"]), told["problems"]) == (1, 1, [])
    assert told["fuses"][0]["actions"] == [
        {"do": "stop"},
        {"do": "webhook", "what": "https://example.org/x?…"},
    ]
