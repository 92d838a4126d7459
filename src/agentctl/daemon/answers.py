"""What `list`, `status` and `why` would show to somebody else: the same verb, the same look, for the
asker's words, environment, directory and terminal.

It is an answer only where the asker would see the same machine: from other namespaces, another root,
with other rights, by another version or by adapters that are not ours, it looks itself. So it does where
we lack the descriptors for a whole look: a list of some sessions would be a wrong one. Every question
is a look of its own: processes are read anew, and so is each file that is not the one it was. Nothing of
the daemon is changed by a question.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentctl import __version__
from agentctl.adapters.registry import third_party
from agentctl.cli import answer as ask
from agentctl.cli.parser import Parser
from agentctl.cli.verbs import list as list_verb
from agentctl.cli.verbs import status, why
from agentctl.daemon_client import protocol
from agentctl.errors import AgentctlError, Exhausted, Fault
from agentctl.system import clock, descriptors
from agentctl.truth.warm import Warm

if TYPE_CHECKING:
    from agentctl.truth.survey import Survey, Wanted

VERBS = {"list": list_verb.answer, "status": status.answer, "why": why.answer}
PARSERS = {"list": list_verb.parser, "status": status.parser, "why": why.parser}
MOST_WORDS, LONGEST_WORD = 64, 1 << 13
NAMESPACES = ("mnt", "pid", "user", "time")
RIGHTS = (b"Uid:", b"Gid:", b"Groups:", b"CapEff:")  # by what the kernel decides what one may read
MOST_PLACES = 256  # of modules
MOST_THREADS = 64  # adapters that never come back keep one each: beyond that, others look themselves


class Question(NamedTuple):
    verb: str
    words: list[str]
    environ: Mapping[str, str]
    cwd: str
    terminal: int | None
    path: list[str]  # where its modules are from
    until: float  # when it waits no longer, by the clock that is the same for all


class WholeLook(ask.Asker):
    """For whom a look that some limit has cut short is none."""

    def survey(
        self, wanted: Wanted | None, adapters: Sequence[str] = (), deadline: float | None = None
    ) -> Survey:
        found = super().survey(wanted, adapters, deadline)
        for problem in found.problems:
            if problem.kind == Exhausted.kind:
                raise elsewhere(problem.message)
        return found


class Answers:
    """For one thread, one question after the other."""

    def __init__(self) -> None:
        self._warm = Warm()
        self._parsers: dict[str, Parser] = {}
        self._modules = Modules()
        self._here = place_of(os.getpid())

    def answer(self, params: Mapping[str, Any], peer: int) -> dict[str, Any]:
        """Raises Fault, with ELSEWHERE where the asker is to look itself."""
        asked = question(params)
        self._check(asked, peer)
        asker = WholeLook(asked.environ, asked.terminal, asked.cwd, self._warm, ())
        collecting = gc.isenabled()
        gc.disable()  # what a look makes is in use until its end: there is nothing to collect
        try:
            answer = self._answer(asked, asker)
            out = "".join(answer.out)
            _need_descriptors()  # other threads may have taken them meanwhile
        finally:
            if collecting:
                gc.enable()
        return {"code": answer.code, "stdout": out, "stderr": answer.err}

    def _check(self, asked: Question, peer: int) -> None:
        if time.monotonic() > asked.until:
            raise elsewhere("nobody waits for the answer any more")
        if not all(map(harmless, asked.words)):
            raise elsewhere("help, and a watch, are for whoever wants to see them")
        _need_descriptors()
        if place_of(peer) != self._here:
            raise elsewhere("the asker is in another namespace or root, or has other rights")
        if any(map(self._modules.adapters_in, {*asked.path, *sys.path})):
            raise elsewhere("an adapter is installed that is not agentctl's own")
        if len(sys._current_frames()) > MOST_THREADS:
            raise elsewhere("too many adapters hang")

    def _answer(self, asked: Question, asker: ask.Asker) -> ask.Answer:
        try:
            parser = self._parsers.get(asked.verb)
            if parser is None:
                parser = self._parsers[asked.verb] = PARSERS[asked.verb]()
            return VERBS[asked.verb](parser.parse_words(asked.words), asker)
        except Fault:  # not to be answered here
            raise
        except AgentctlError as error:
            if asker.environ.get("AGENTCTL_DEBUG") == "1":
                raise elsewhere("an error, and the asker wants to see where it is from") from error
            return ask.failed(error, asker.environ)


class Modules:
    """Where adapters of others are installed. Installers make a directory for each package, which moves
    the time of the one that it is in."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, int], bool]] = {}

    def adapters_in(self, directory: str) -> bool:
        try:
            status = os.stat(directory or ".")
        except OSError:  # an entry of sys.path that does not exist is normal
            return False
        mark = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        known = self._known.get(directory)
        if known is not None and known[0] == mark:
            return known[1]
        found = bool(third_party([directory]))
        settled = clock.settled(status.st_mtime) and clock.settled(status.st_ctime)
        if settled and len(self._known) < MOST_PLACES:
            self._known[directory] = (mark, found)
        return found


def _need_descriptors() -> None:
    shortage = descriptors.shortage()
    if shortage is not None:
        raise elsewhere(shortage)


def harmless(word: str) -> bool:
    """Whether it asks for nothing that prints, or never ends: `-ah` is `-a -h`."""
    short = word.startswith("-") and not word.startswith("--")
    return word not in ("--help", "--watch") and not (short and "h" in word)


def place_of(pid: int) -> tuple[object, ...]:
    """All that decides what of the machine this process sees. Raises Fault where it is withheld."""
    try:
        links = [os.readlink(f"/proc/{pid}/root")]
        for name in NAMESPACES:
            try:
                links.append(os.readlink(f"/proc/{pid}/ns/{name}"))
            except FileNotFoundError:  # an older kernel has no namespaces of time
                continue
        with open(f"/proc/{pid}/status", "rb") as file:
            rights = [line for line in file if line.startswith(RIGHTS)]
    except OSError as error:
        raise elsewhere(f"the asker cannot be looked at: {error.strerror}") from error
    return (*links, *rights)


def question(params: Mapping[str, Any]) -> Question:
    """Raises Fault for what is none."""
    if params.get("protocol") != protocol.PROTOCOL or params.get("version") != __version__:
        raise elsewhere(f"this daemon is agentctl {__version__}, protocol {protocol.PROTOCOL}")
    environ, cwd, terminal = (params.get(name) for name in ("environ", "cwd", "terminal"))
    verb, until = params.get("verb"), params.get("until")
    words, path = _texts(params, "words"), _texts(params, "path")
    if not isinstance(verb, str) or verb not in VERBS:
        raise Fault(protocol.BAD_PARAMS, f"verb: one of {', '.join(VERBS)}")
    if len(words) > MOST_WORDS or any(len(word) > LONGEST_WORD for word in words):
        raise Fault(protocol.BAD_PARAMS, f"words: at most {MOST_WORDS}, and none so long")
    if not isinstance(environ, dict) or not all(isinstance(each, str) for each in environ.values()):
        raise Fault(protocol.BAD_PARAMS, "environ: texts by name")
    if not isinstance(cwd, str) or not cwd.startswith("/"):
        raise Fault(protocol.BAD_PARAMS, "cwd: the directory that it is asked in")
    if terminal is not None and (type(terminal) is not int or not 0 <= terminal < 1 << 16):
        raise Fault(protocol.BAD_PARAMS, "terminal: its columns, or null")
    if type(until) is not float:
        raise Fault(protocol.BAD_PARAMS, "until: when nobody waits any more")
    return Question(verb, words, environ, cwd, terminal, path, until)


def _texts(params: Mapping[str, Any], name: str) -> list[str]:
    given = params.get(name)
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise Fault(protocol.BAD_PARAMS, f"{name}: a list of texts")
    return given


def elsewhere(why: str) -> Fault:
    return Fault(protocol.ELSEWHERE, why)


_answers: Answers | None = None


def answer(params: Mapping[str, Any], peer: int) -> dict[str, Any]:
    """The daemon's method `ask`; always called in the same thread."""
    global _answers  # noqa: PLW0603 - one memory for all questions
    if _answers is None:
        _answers = Answers()
    return _answers.answer(params, peer)
