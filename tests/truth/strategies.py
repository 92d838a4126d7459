"""Evidence, processes and ties as hypothesis draws them."""

from hypothesis import strategies as st

from agentctl.system.proc import Process, ProcessIdentity
from agentctl.truth.bind import METHODS, Tie
from agentctl.truth.judge import ACTIVITY, ENDINGS, LIVENESS, RANK, WAITING_FOR
from agentctl.truth.model import Evidence

CLAIMS = (*LIVENESS, *ACTIVITY, "exited", "suspended")
times = st.none() | st.floats(0, 4e9)
codes = st.none() | st.sampled_from([0, 1, 2, 126, 130, 137, 143, 255, -2, -9, -15])
details = st.sampled_from(["", *ENDINGS, *WAITING_FOR, "parked"])


def evidences(**fixed: object) -> st.SearchStrategy[Evidence]:
    parts: dict[str, st.SearchStrategy[object]] = {
        "claim": st.sampled_from(CLAIMS),
        "address": st.sampled_from(["proc:7@1", "/a.json", "/b.jsonl@12"]),
        "authority": st.sampled_from(tuple(RANK)),
        "at": times,
        "detail": details,
        "note": st.sampled_from(["", "it says so"]),
        "trusted": st.booleans(),
        "value": codes,
    }
    parts.update({name: st.just(value) for name, value in fixed.items()})
    return st.builds(Evidence, **parts)


# Most random evidence ends at "no source tells": so two of three have a fact of the kernel.
_words = st.sampled_from(
    [
        (),
        (Evidence("alive", "proc:7@1", "kernel"),),
        (Evidence("gone", "/proc", "kernel"),),
    ]
)
bodies = st.tuples(_words, st.lists(evidences(), max_size=6)).map(lambda parts: (*parts[0], *parts[1]))


def make_process(pid: int, parent: int = 1, state: str = "S", start: int | None = None) -> Process:
    """Make a process that is in no process table."""
    identity = ProcessIdentity("boot", pid, pid * 100 if start is None else start)
    return Process(identity, parent, state, "agent")


PROCESSES = [make_process(pid, parent=pid // 2) for pid in (10, 11, 20, 21)]
SERVER = PROCESSES[-1]
DEAD = make_process(12, state="Z")

ties = st.builds(
    Tie,
    session_id=st.sampled_from("abcd"),
    process=st.sampled_from([*PROCESSES, DEAD]),
    method=st.just(METHODS[-1]) | st.sampled_from(METHODS),  # the weakest often: it decides only alone
    address=st.just("/somewhere"),
    shared=st.just(False),
).map(lambda tie: tie._replace(shared=tie.process is SERVER))
