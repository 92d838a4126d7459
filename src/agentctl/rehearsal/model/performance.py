"""Plays one round to one client: pauses, failures, words and calls, each noted when it has happened."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from agentctl.rehearsal.model.gates import Gates, Stopped
from agentctl.rehearsal.model.journal import Journal, Kind
from agentctl.rehearsal.model.reply import default
from agentctl.rehearsal.model.request import Request, agent_made
from agentctl.rehearsal.model.script import BadScript, Failure, Pause, Round, after, rounds
from agentctl.rehearsal.model.tools import Use, use
from agentctl.rehearsal.model.voice import FAULT, THOUGHT, Voice

WORD_EVERY = 0.2  # seconds between two words of a slow stream
GLANCE = 0.05  # seconds between two looks at whether the client is still there
PIECE = 4000  # characters in one event of a long text


class Left(Exception):
    """The client has closed the connection."""


class Cut(Exception):
    """The script wants the connection closed here."""


class Line(Protocol):
    """The way to the client."""

    def open(self) -> None:
        """Send the head of a streamed answer."""

    def send(self, frames: str) -> None: ...

    def close(self) -> None:
        """End a streamed answer properly."""

    def reply(self, status: int, body: dict[str, Any]) -> None:
        """Send a whole answer at once."""

    def gone(self) -> bool: ...


class Tally:
    """How often a failure has been played, per conversation and text: "the first two times"."""

    def __init__(self) -> None:
        self._played: dict[tuple[str, str, int, int], int] = {}
        self._lock = threading.Lock()

    def due(self, request: Request, number: int, failures: tuple[Failure, ...]) -> Failure | None:
        with self._lock:
            for at, failure in enumerate(failures):
                key = (request.conversation, request.text, number, at)
                played = self._played.get(key, 0)
                if failure.times is None or played < failure.times:
                    self._played[key] = played + 1
                    return failure
        return None


class Performance:
    def __init__(
        self,
        request: Request,
        voice: Voice,
        refusal: Callable[[int, str], dict[str, Any]],
        line: Line,
        *,
        gates: Gates,
        journal: Journal,
        tally: Tally,
    ) -> None:
        self._request, self._voice, self._refusal, self._line = request, voice, refusal, line
        self._gates, self._journal, self._tally = gates, journal, tally
        self._number = 0
        self._words = 0

    def play(self) -> None:
        try:
            unscripted = self._request.helper or agent_made(self._request.text)
            script = (Round(),) if unscripted else rounds(self._request.text)
            self._number = after(script, self._request.results)
            current = script[self._number]
            uses = [use(call, self._request.tools) for call in current.calls]
        except BadScript as error:
            self._note("asked")
            self._refuse(400, f"bad script: {error}")
            return
        self._note("asked")
        try:
            self._play(current, uses)
        except (Stopped, Cut):
            self._note("dropped")
            raise
        except (Left, BrokenPipeError, ConnectionError):
            self._note("dropped" if self._gates.stopped else "left")
            raise

    def _play(self, current: Round, uses: list[Use]) -> None:
        for pause in current.pauses:
            if pause.kind == "mute":
                self._hold(pause)
        failure = self._tally.due(self._request, self._number, current.failures)
        if self._request.model.startswith("no-such"):
            self._refuse(404, f"model: {self._request.model}")
        elif failure and failure.kind == "error":
            self._refuse(failure.status, f"rehearsed error {failure.status}")
        else:
            self._answer(current, uses, failure)

    def _answer(self, current: Round, uses: list[Use], failure: Failure | None) -> None:
        self._begin()
        if current.think:
            self._send(self._voice.think(THOUGHT))
        for pause in current.pauses:
            if pause.kind != "mute":
                self._hold(pause)
        if failure:
            self._break(failure)
            return
        for piece in self._text(current):
            self._send(self._voice.say(piece))
        for one in uses:
            self._send(self._voice.call(one.tool, one.arguments))
        self._end(self._voice.finish(current.stop))
        self._note("called" if uses else "answered")

    def _text(self, current: Round) -> Iterator[str]:
        text = current.say
        if text is None:
            text = "" if current.calls else default(self._request)
        for start in range(0, len(text), PIECE):
            yield text[start : start + PIECE]

    # -- failures

    def _refuse(self, status: int, message: str) -> None:
        self._line.reply(status, self._refusal(status, message))
        self._note("refused")

    def _break(self, failure: Failure) -> None:
        """Half an answer. Who did not ask for a stream gets the end of the connection, or a status."""
        if not self._request.streaming:
            if failure.kind == "fault":
                self._refuse(500, FAULT)
                return
        else:
            self._send(self._voice.say("half an answ"))
            if failure.kind == "fault":
                self._send(self._voice.fault())
                self._line.close()
                self._note("refused")
                return
        raise Cut

    # -- pauses

    def _hold(self, pause: Pause) -> None:
        if pause.name:
            self._note("held", gate=pause.name)
        match pause.kind:
            case "stream":
                end = time.monotonic() + pause.seconds
                self._linger(lambda wait: self._until(end, wait), speaking=True)
            case "hang":
                self._word()
                self._linger(lambda wait: self._gates.wait(None, wait), speaking=False)
            case _:
                speaking = pause.kind == "gate"
                self._linger(lambda wait: self._gates.wait(pause.name, wait), speaking=speaking)

    def _until(self, end: float, wait: float) -> bool:
        self._gates.wait(None, min(wait, max(0.0, end - time.monotonic())))
        return time.monotonic() >= end

    def _linger(self, over: Callable[[float], bool], *, speaking: bool) -> None:
        word_at = time.monotonic()
        while True:
            if speaking and time.monotonic() >= word_at:
                self._word()
                word_at += WORD_EVERY
            if over(GLANCE):
                return
            if self._line.gone():
                raise Left

    def _word(self) -> None:
        self._words += 1
        self._send(self._voice.say(f"word{self._words} "))

    # -- sending

    def _begin(self) -> None:
        frames = self._voice.begin()
        if self._request.streaming:
            self._line.open()
            self._line.send(frames)
            self._note("began")

    def _send(self, frames: str) -> None:
        """A client that wants no stream gets all of it in the end: the voice remembers."""
        if self._request.streaming:
            self._line.send(frames)

    def _end(self, frames: str) -> None:
        if self._request.streaming:
            self._line.send(frames)
            self._line.close()
        else:
            self._line.reply(200, self._voice.whole())
            self._note("began")

    def _note(self, kind: Kind, gate: str = "") -> None:
        request = self._request
        self._journal.add(kind, request.text, round_=self._number, helper=request.helper, gate=gate)
