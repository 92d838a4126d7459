"""Pi (`@earendil-works/pi-coding-agent`, before that `@mariozechner/…`) and its Rust port.

Binding: `binding`, mostly inferred, because Pi erases its arguments and keeps no file open.
Status: the last message of the session file, `transcript`. Before 0.99 the file appears only with
the first complete answer: until then there is a process and no session. Pi asks no permission, and its
few dialogs leave no trace: it is never seen waiting.

A last answer with stopReason "error" is a failed turn. If it may be tried again (1.x marks such an
answer, older versions do not) and the process lives, the turn goes on or is over, and the file is the
same: activity unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentctl.adapters.base import Place, Starting, Wanted
from agentctl.adapters.pi import binding
from agentctl.adapters.pi import places as where
from agentctl.adapters.pi.transcript import read, retry_or_not, said
from agentctl.adapters.registry import COMMS
from agentctl.truth import observe
from agentctl.truth.bind import Bound, bind
from agentctl.truth.look import Look
from agentctl.truth.model import EntryPoint, Evidence, Facts, Message, Observation
from agentctl.truth.observe import ended, facts_or_none, living, transcript
from agentctl.truth.procfs import Process

BINARIES = frozenset({"pi", "pi-rust", "pi_agent_rust"})
# Options of node and bun that take the next word as their value.
WITH_VALUE = frozenset({"-r", "--require", "--import", "--loader", "--experimental-loader", "-C"})


class Pi(Starting):
    start = "agentctl.adapters.pi.start"
    name = "pi"
    comms = COMMS["pi"]
    binary = "pi"
    permission_modes = ()

    def owns(self, process: Process) -> bool:
        renamed = process.argv == ("pi",)  # a moment before its comm is
        if process.exe is None:  # another user's: what it calls itself is all there is
            return process.comm == "pi" and renamed
        runtime = process.exe.rpartition("/")[2]
        if runtime not in where.RUNTIMES:
            return runtime in BINARIES
        return renamed or process.comm == "pi" or _is_pi(_script(process.argv))

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
    """Shows the failed answer that may be retried, or the turn that another process left open, and
    believes it not."""
    if not retry_or_not(facts) and not _left_open(facts, bound, look):
        return facts, ()
    doubtful = tuple(e._replace(trusted=False) for e in observe.said(facts, path))
    return facts._replace(turn=None), doubtful


def _left_open(facts: Facts, bound: Bound, look: Look) -> bool:
    """Whoever resumes a session begins with a prompt, and does not go on with the turn of a dead one."""
    turn, owner = facts.turn, bound.owner
    if turn is None or turn.claim != "working" or turn.at is None or owner is None:
        return False
    return turn.at < look.started_at(owner)


def _is_pi(script: str) -> bool:
    return script.rpartition("/")[2] == "pi" or "/pi-coding-agent/" in script


def _script(argv: tuple[str, ...]) -> str:
    """What node or bun runs: the first argument that is neither an option nor the value of one."""
    words = iter(argv[1:])
    for word in words:
        if word in WITH_VALUE:
            next(words, None)
        elif not word.startswith("-") and word != "run":
            return word
    return ""


def _entry_point(bound: Bound) -> EntryPoint | None:
    """While the arguments are visible, or where they were ours."""
    if bound.owner is None:
        return None
    headless = {"-p", "--print", "--mode"}.intersection(bound.owner.argv)
    return "headless" if headless or bound.method == "launch note" else None


def _roots(look: Look) -> list[str]:
    """Every directory that holds session files, or directories of them."""
    places = (where.tree, where.flat, where.rust_tree)
    found = [root for place in places for root in look.roots(place)]
    known = dict.fromkeys(found)
    for process in look.owned:
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
