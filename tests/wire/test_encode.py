"""The quick way to JSON says exactly what the shapes say."""

import json

from hypothesis import given
from hypothesis import strategies as st

from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process
from agentctl.truth.model import Evidence, Facts, Launch, Observation, Session, Tokens, Verdict
from agentctl.wire import encode
from agentctl.wire import session as shapes

texts = st.text(st.characters(codec=None))  # lone surrogates too: other programs write them
counts = st.none() | st.integers()
times = st.none() | st.floats(-1e12, 1e12)
amounts = st.none() | st.floats(-1e12, 1e12) | st.integers(-10, 10)
optional = st.none() | texts
identities = st.builds(ProcessIdentity, texts, st.integers(1, 9999), st.integers(0, 9999))
evidence = st.builds(
    Evidence,
    st.sampled_from(["alive", "gone", "idle"]),
    texts,
    st.sampled_from(["kernel", "journal"]),
    times,
    texts,
    texts,
    st.booleans(),
)
facts = st.builds(
    Facts,
    cwd=optional,
    model=optional,
    title=optional,
    prompt=optional,
    started_at=times,
    last_activity_at=times,
    tokens=st.none() | st.builds(Tokens, counts, counts, counts, counts),
    cost_usd=amounts,
    entry_point=st.sampled_from([None, "headless"]),
    agent_version=optional,
    parent_id=optional,
)
owners = st.none() | st.builds(Process, identities, st.just(1), st.just("S"), texts)
pieces = st.lists(evidence, max_size=3).map(tuple)
verdicts = st.builds(
    Verdict,
    st.sampled_from(["running", "stopped"]),
    st.just("unknown"),
    st.sampled_from([None, "question"]),
    st.sampled_from([None, "killed"]),
    counts,
    texts,
    pieces,
    pieces,
)
launches = st.none() | st.builds(
    Launch, texts, identities, optional, optional, optional, optional, st.just((("k", "v"),))
)
observations = st.builds(Observation, texts, optional, pieces, facts, owners, optional)


@given(st.builds(Session, observations, verdicts, launches))
def test_it_is_what_the_shapes_say(session: Session) -> None:
    assert encode.session(session) == json.dumps(shapes.session(session))
