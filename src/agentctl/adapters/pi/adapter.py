"""Pi (`@earendil-works/pi-coding-agent`, before that `@mariozechner/…`) and its Rust port.

Binding: `binding`, mostly inferred, because Pi erases its arguments and keeps no file open.
Status: the last message of the session file, `transcript`; work outside a turn, `beside`.
Before 0.99 the file appears only with the first complete answer: until then there is a process and no
session. Pi asks for no permission, and its few dialogs leave no trace: it is never shown as waiting.

A last answer with stopReason "error" is a failed turn. If Pi may retry (1.x marks such an answer, older
versions do not) and the process lives, the file does not show whether the turn goes on: activity
unknown.
"""

from __future__ import annotations

import os

from agentctl.adapters.base import HistoryQuery, Place, StartModule
from agentctl.adapters.pi import agent
from agentctl.adapters.pi import places as where
from agentctl.adapters.pi.binding import find_claims, find_id, find_silent
from agentctl.adapters.pi.transcript import may_be_retried, read_facts, to_messages
from agentctl.errors import SourceError
from agentctl.light_typing import Iterable, Iterator
from agentctl.system.clock import TICK
from agentctl.system.proc import Process
from agentctl.system.program import read_program
from agentctl.truth import observe
from agentctl.truth.bind import Binding, bind
from agentctl.truth.look import Look
from agentctl.truth.model import EntryPoint, Evidence, Facts, Message, Observation
from agentctl.truth.observe import observe_ended, observe_live, read_live_facts, read_transcript

BINARIES = frozenset({"pi", "pi-rust", "pi_agent_rust"})


class Pi(StartModule):
    start = "agentctl.adapters.pi.start"
    name = "pi"
    api = 1
    comms = agent.PROCESSES
    binary = agent.BINARY
    permission_modes = ()
    works_unseen = True  # outside a turn: see `beside`

    def owns(self, process: Process) -> bool:
        is_renamed = process.argv == ("pi",)  # argv changes a moment before comm
        is_titled = is_renamed and process.comm == "pi"
        if process.exe is None:  # another user's: only its title is visible
            return is_titled
        program = read_program(process)
        if not program.runtime:
            return program.name in BINARIES or (is_titled and program.name.startswith("pi"))
        return is_renamed or process.comm == "pi" or _is_pi_script(program.path)

    def live(self, look: Look) -> Iterable[Observation]:
        cache: dict[str, Facts] = {}

        def facts(path: str) -> Facts:
            if path not in cache:
                cache[path] = read_live_facts(look, path, read_facts)
            return cache[path]

        claims = find_claims(look, facts)
        paths = {claim.tie.session_id: claim.path for claim in claims if claim.path}
        for session, binding in bind(claim.tie for claim in claims).items():
            path = paths.get(session)
            session_facts = facts(path) if path is not None else Facts()
            entry_point = _read_entry_point(binding)
            session_facts, doubtful = _distrust_turn(session_facts, path, binding, look)
            yield observe_live(
                look, binding, path, session_facts._replace(entry_point=entry_point), *doubtful
            )

    def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
        doubts = find_silent(look)
        for root in _find_roots(look):
            for path in _list_transcripts(root, look):
                session = find_id(path, look)
                if session is not None and session.startswith(query.id_prefix):
                    doubt = doubts.get(path.rpartition("/")[0], ())
                    yield from observe_ended(look, session, path, read_facts, query, *doubt)

    def messages(self, observation: Observation, look: Look) -> Iterator[Message]:
        for offset, record in read_transcript(observation, look):
            yield from to_messages(offset, record)

    def signs(self, observation: Observation, look: Look) -> Iterable[str]:
        """Pi creates its file with the first prompt, or continues an old one."""
        if (
            observation.owner is not None
            and (directory := where.find_directory(observation.owner, look)) is not None
        ):
            yield f"{directory}/*"

    def places(self, look: Look) -> Iterable[Place]:
        for root in _find_roots(look):
            yield Place("transcripts", root)


def _distrust_turn(
    facts: Facts, path: str | None, binding: Binding, look: Look
) -> tuple[Facts, tuple[Evidence, ...]]:
    """Return facts and evidence, with distrust in a failed answer that Pi may retry, in a turn that
    another process left open, and in the end of a turn after which Pi still works."""
    if _has_just_failed(facts, look):
        pieces = observe.make_turn_evidence(facts, path)
        recent = (e._replace(note=f"{e.note}; {observe.UNSETTLED}", trusted=False) for e in pieces)
        return facts._replace(turn=None), tuple(recent)
    work = _find_work(facts, binding, look)
    if work is None and not may_be_retried(facts) and not _is_left_open(facts, binding, look):
        return _discount_if_prompted(facts, path, binding, look)
    doubtful = tuple(e._replace(trusted=False) for e in observe.make_turn_evidence(facts, path))
    return facts._replace(turn=None), (work, *doubtful) if work is not None else doubtful


def _find_work(facts: Facts, binding: Binding, look: Look) -> Evidence | None:
    if binding.owner is None or facts.turn is None or facts.turn.claim != "idle":
        return None
    from agentctl.adapters.pi import beside  # most often there is no idle Pi

    return beside.find_work(binding.owner, facts, look)


def _has_just_failed(facts: Facts, look: Look) -> bool:
    """Return True if the turn failed within the last second: 1.x marks a retry a moment later."""
    turn = facts.turn
    if turn is None or turn.at is None or (turn.claim, turn.detail) != ("idle", "failed"):
        return False
    return 0 <= look.now - turn.at < observe.SETTLED_AFTER


def _discount_if_prompted(
    facts: Facts, path: str | None, binding: Binding, look: Look
) -> tuple[Facts, tuple[Evidence, ...]]:
    """Return facts and evidence, with distrust in a turn that ended before the process began, if it was
    started with a prompt."""
    owner = binding.owner
    if owner is None or facts.turn is None:
        return facts, ()
    pieces = observe.make_turn_evidence(facts, path)
    since = look.find_start_time(owner) + TICK
    discounted = tuple(observe.discount_earlier_turn(piece, since) for piece in pieces)
    if discounted == pieces or not _is_prompted(
        binding, owner
    ):  # checked last: it reads all descriptors
        return facts, ()
    return facts._replace(turn=None), discounted


def _is_prompted(binding: Binding, owner: Process) -> bool:
    """Return True if the prompt came with the start. /dev/null as input allows no typed one."""
    try:
        return _read_entry_point(binding) == "headless" or owner.read_standard_input() == os.devnull
    except SourceError:  # the process has ended, or is withheld
        return False


def _is_left_open(facts: Facts, binding: Binding, look: Look) -> bool:
    """Return True for an open turn older than its owner: a resume begins with a new prompt."""
    owner = binding.owner
    return owner is not None and observe.is_left_open(facts.turn, look.find_start_time(owner))


def _is_pi_script(script: str) -> bool:
    return script.rpartition("/")[2] == "pi" or "/pi-coding-agent/" in script


def _read_entry_point(binding: Binding) -> EntryPoint | None:
    """Return "headless" if the arguments show it or we launched the process; else None."""
    if binding.owner is None:
        return None
    options = {"-p", "--print", "--mode"}.intersection(binding.owner.argv)
    return "headless" if options or binding.method == "launch note" else None


def _find_roots(look: Look) -> list[str]:
    """Return every directory with session files, or with directories of them."""
    trees = [root for place in (where.sessions_tree, where.rust_tree) for root in look.find_roots(place)]
    roots = dict.fromkeys([*trees, *filter(None, [where.find_flat(look.environ)])])
    for process in look.own_processes:  # each process may have other settings
        directory = where.find_directory(process, look)
        if directory is not None and directory.rpartition("/")[0] not in roots:
            roots[directory] = None
    return list(roots)


def _list_transcripts(root: str, look: Look) -> Iterator[str]:
    """Yield the files of a flat directory, or of the directories below, one for each working directory.
    Skip the other files of the Rust port (an index, `.v2` and `.blobs` directories)."""
    for name in look.list_names(root):
        if name.endswith(".jsonl"):
            yield f"{root}/{name}"
        elif name.startswith("--") and name.endswith("--"):
            for inner in look.list_names(f"{root}/{name}"):
                if inner.endswith(".jsonl"):
                    yield f"{root}/{name}/{inner}"
