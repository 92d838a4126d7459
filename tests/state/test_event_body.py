"""What is written smaller comes back as it was."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentctl.state.event_body import packed, unpacked
from agentctl.truth.survey import Wanted
from agentctl.wire import event
from agentctl.wire import session as shapes
from tests.fakes.demo import DemoStage

TEXT = st.text(max_size=5) | st.none()
PIECES = st.fixed_dictionaries(
    {
        "claim": TEXT, "detail": TEXT, "authority": TEXT, "at": TEXT, "address": TEXT, "note": TEXT,
        "trusted": st.booleans(), "decided": st.booleans(),
    }
)  # fmt: skip
BODIES = st.fixed_dictionaries(
    {
        "session": st.fixed_dictionaries({"id": TEXT, "evidence": st.lists(PIECES, max_size=3)}),
        "evidence": st.lists(PIECES, max_size=3),
        "data": st.just({"k": 1}),
    }
)


def there_and_back(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = unpacked(json.loads(json.dumps(packed(body))))
    return found


@given(BODIES)
def test_any_body_comes_back(body: dict[str, Any]) -> None:
    assert there_and_back(body) == body


@given(BODIES)
def test_one_of_ours_comes_back(body: dict[str, Any]) -> None:
    body["evidence"] = [piece for piece in body["session"]["evidence"] if piece["decided"]]
    assert there_and_back(body) == body
    assert "evidence" not in packed(body)["session"]


@given(
    st.dictionaries(
        st.sampled_from(["session", "evidence", "data"]), st.none() | st.integers() | st.just([])
    )
)
def test_what_has_another_form_stays(body: dict[str, Any]) -> None:
    assert there_and_back(dict(body)) == body


def test_the_fields_of_a_piece_are_those_that_are_shown(tmp_path: Path) -> None:
    """Else nothing would be packed any more, and nobody would see it."""
    stage = DemoStage(tmp_path)
    try:
        puppet = stage.start()
        puppet.do("work")
        (session,) = stage.survey(Wanted()).sessions
        body = event.body(session, more=1)
        assert there_and_back(body) == json.loads(json.dumps(body))
        assert list(there_and_back(body)["evidence"][0]) == [
            name for name, _, _ in shapes.EVIDENCE_FIELDS
        ]
        assert len(json.dumps(packed(body))) < 0.7 * len(json.dumps(body))
    finally:
        stage.close()
