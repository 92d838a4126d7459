"""Pi (`@earendil-works/pi-coding-agent`, before that `@mariozechner/…`) and its Rust port.

Binding: `binding`, mostly inferred, because Pi erases its arguments and keeps no file open.
Status: the last message of the session file, `transcript`; whether it works outside a turn, `beside`.
Before 0.99 the file appears only with the first complete answer: until then there is a process and no
session. Pi asks no permission, and its few dialogs leave no trace: it is never seen waiting.

A last answer with stopReason "error" is a failed turn. If it may be tried again (1.x marks such an
answer, older versions do not) and the process lives, the turn goes on or is over, and the file is the
same: activity unknown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from agentctl.adapters.base import Place, Starting, Wanted
from agentctl.adapters.pi import binding
from agentctl.adapters.pi import places as where
from agentctl.adapters.pi.transcript import read, retry_or_not, said
from agentctl.adapters.registry import COMMS
from agentctl.errors import SourceError
from agentctl.system.clock import TICK
from agentctl.system.proc import Process
from agentctl.system.program import program_of
from agentctl.truth import observe
from agentctl.truth.bind import Bound, bind
from agentctl.truth.look import Look
from agentctl.truth.model import EntryPoint, Evidence, Facts, Message, Observation
from agentctl.truth.observe import ended, facts_or_none, living, transcript

BINARIES = frozenset({"pi", "pi-rust", "pi_agent_rust"})


class Pi(Starting):
    start = "agentctl.adapters.pi.start"
    name = "pi"
    comms = COMMS["pi"]
    binary = "pi"
    permission_modes = ()
    works_unseen = True  # outside a turn: see `beside`

    def owns(self, process: Process) -> bool:
        renamed = process.argv == ("pi",)  # a moment before its comm is
        titled = renamed and process.comm == "pi"
        if process.exe is None:  # another user's: what it calls itself is all there is
            return titled
        program = program_of(process)
        if not program.runtime:
            return program.name in BINARIES or (titled and program.name.startswith("pi"))
        return renamed or process.comm == "pi" or _is_pi(program.path)

    def live(self, look: Look) -> Iterable[Observation]:
        known: dict[str, Facts] = {}

        def facts(path: str) -> Facts:
            if path not in known:
                known[path] = facts_or_none(look, path, read)
            return known[path]

        claims = binding.claims(look, facts)
        paths = {claim.tie.session_id: claim.path for claim in claims if claim.path}
        for session, bound in bind(claim.tie for claim in claims).items():
            path = paths.get(session)
            found = facts(path) if path is not None else Facts()
            entry = _entry_point(bound)
            found, doubtful = _settled(found, path, bound, look)
            yield living(look, bound, path, found._replace(entry_point=entry), *doubtful)

    def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
        silent = binding.silent(look)
        for root in _roots(look):
            for path in _transcripts(root, look):
                session = binding.id_of(path, look)
                if session is not None and session.startswith(wanted.id_prefix):
                    doubt = silent.get(path.rpartition("/")[0], ())
                    yield from ended(look, session, path, read, wanted, *doubt)

    def messages(self, seen: Observation, look: Look) -> Iterator[Message]:
        for offset, record in transcript(seen, look):
            yield from said(offset, record)

    def signs(self, seen: Observation, look: Look) -> Iterable[str]:
        """It makes its file with the first prompt, or goes on with an old one."""
        if seen.owner is not None and (place := where.directory(seen.owner, look)) is not None:
            yield f"{place}/*"

    def places(self, look: Look) -> Iterable[Place]:
        for root in _roots(look):
            yield Place("transcripts", root)


def _settled(
    facts: Facts, path: str | None, bound: Bound, look: Look
) -> tuple[Facts, tuple[Evidence, ...]]:
    """Shows the failed answer that may be retried, the turn that another process left open, or the end
    of a turn after which it works on, and does not believe it."""
    if _just_failed(facts, look):
        pieces = observe.said(facts, path)
        young = (e._replace(note=f"{e.note}; {observe.UNSETTLED}", trusted=False) for e in pieces)
        return facts._replace(turn=None), tuple(young)
    found = _work(facts, bound, look)
    if found is None and not retry_or_not(facts) and not _left_open(facts, bound, look):
        return _unless_prompted(facts, path, bound, look)
    doubtful = tuple(e._replace(trusted=False) for e in observe.said(facts, path))
    return facts._replace(turn=None), (found, *doubtful) if found is not None else doubtful


def _work(facts: Facts, bound: Bound, look: Look) -> Evidence | None:
    if bound.owner is None or facts.turn is None or facts.turn.claim != "idle":
        return None
    from agentctl.adapters.pi import beside  # `list` is to be fast, and most often there is no idle Pi

    return beside.work(bound.owner, facts, look)


def _just_failed(facts: Facts, look: Look) -> bool:
    """Whether its turn failed within the last second: 1.x writes a moment later that it tries again."""
    turn = facts.turn
    if turn is None or turn.at is None or (turn.claim, turn.detail) != ("idle", "failed"):
        return False
    return 0 <= look.now - turn.at < observe.SETTLED_AFTER


def _unless_prompted(
    facts: Facts, path: str | None, bound: Bound, look: Look
) -> tuple[Facts, tuple[Evidence, ...]]:
    """A process that was started with its prompt is not idle because of a turn that ended before the
    process began."""
    owner = bound.owner
    if owner is None or facts.turn is None:
        return facts, ()
    pieces = observe.said(facts, path)
    since = look.started_at(owner) + TICK
    doubtful = tuple(observe.unless_prompted(piece, since) for piece in pieces)
    if doubtful == pieces or not _is_prompted(bound, owner):  # asked last: it reads all descriptors
        return facts, ()
    return facts._replace(turn=None), doubtful


def _is_prompted(bound: Bound, owner: Process) -> bool:
    """Whether it has its prompt from the start: nobody can type one into /dev/null."""
    try:
        return _entry_point(bound) == "headless" or owner.standard_input() == os.devnull
    except SourceError:  # it has ended, or may not be looked into
        return False


def _left_open(facts: Facts, bound: Bound, look: Look) -> bool:
    """Whoever resumes a session begins with a prompt, and does not go on with the turn of a dead one."""
    turn, owner = facts.turn, bound.owner
    if turn is None or turn.claim != "working" or turn.at is None or owner is None:
        return False
    return turn.at < look.started_at(owner)


def _is_pi(script: str) -> bool:
    return script.rpartition("/")[2] == "pi" or "/pi-coding-agent/" in script


def _entry_point(bound: Bound) -> EntryPoint | None:
    """While the arguments are visible, or where they were ours."""
    if bound.owner is None:
        return None
    headless = {"-p", "--print", "--mode"}.intersection(bound.owner.argv)
    return "headless" if headless or bound.method == "launch note" else None


def _roots(look: Look) -> list[str]:
    """Every directory that holds session files, or directories of them."""
    found = [root for place in (where.tree, where.rust_tree) for root in look.roots(place)]
    known = dict.fromkeys([*found, *filter(None, [where.flat(look.environ)])])
    for process in look.owned:  # its settings are in its own home
        own = where.directory(process, look)
        if own is not None and own.rpartition("/")[0] not in known:
            known[own] = None
    return list(known)


def _transcripts(root: str, look: Look) -> Iterator[str]:
    """The files of a flat directory, or of the directories below, one for each working directory.
    What else the Rust port keeps there (an index, `.v2` and `.blobs` directories) is not for us."""
    for name in look.names(root):
        if name.endswith(".jsonl"):
            yield f"{root}/{name}"
        elif name.startswith("--") and name.endswith("--"):
            for inner in look.names(f"{root}/{name}"):
                if inner.endswith(".jsonl"):
                    yield f"{root}/{name}/{inner}"
