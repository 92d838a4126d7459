"""Play one round to one client: pauses, failures, text and tool calls. The journal gets a note on
each."""

from __future__ import annotations

import threading
import time
from typing import Any, Protocol

from agentctl.light_typing import Callable, Iterator
from agentctl.rehearsal.model.gates import Gates, Stopped
from agentctl.rehearsal.model.journal import Journal, Kind
from agentctl.rehearsal.model.reply import make_default
from agentctl.rehearsal.model.request import Request, is_agent_made
from agentctl.rehearsal.model.script import BadScript, Failure, Pause, Round, find_round, parse_rounds
from agentctl.rehearsal.model.tools import ToolUse, choose_tool
from agentctl.rehearsal.model.voice import FAULT, THOUGHT, Voice

WORD_EVERY = 0.2  # seconds between two words of a slow stream
GLANCE = 0.05  # seconds between two checks that the client is still there
PIECE = 4000  # characters in one event of a long text


class ClientLeft(Exception):
    """The client closed the connection."""


class ConnectionCut(Exception):
    """The script closes the connection here."""


class Line(Protocol):
    """Sends an answer to the client."""

    def open(self) -> None:
        """Send the head of a streamed answer."""

    def send(self, frames: str) -> None: ...

    def close(self) -> None:
        """End a streamed answer."""

    def reply(self, status: int, body: dict[str, Any]) -> None:
        """Send a whole answer at once."""

    def is_gone(self) -> bool: ...


class Tally:
    """Counts how often each failure was played, by conversation and text, for "the first two times"."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int, int], int] = {}
        self._lock = threading.Lock()

    def take_failure(
        self, request: Request, number: int, failures: tuple[Failure, ...]
    ) -> Failure | None:
        """Return the failure to play now and count it; None if there is none."""
        with self._lock:
            for at, failure in enumerate(failures):
                key = (request.conversation, request.text, number, at)
                count = self._counts.get(key, 0)
                if failure.times is None or count < failure.times:
                    self._counts[key] = count + 1
                    return failure
        return None


class Performance:
    def __init__(
        self,
        request: Request,
        voice: Voice,
        make_error: Callable[[int, str], dict[str, Any]],
        line: Line,
        *,
        gates: Gates,
        journal: Journal,
        tally: Tally,
    ) -> None:
        self._request, self._voice, self._make_error, self._line = request, voice, make_error, line
        self._gates, self._journal, self._tally = gates, journal, tally
        self._number = 0
        self._words = 0

    def play(self) -> None:
        try:
            has_no_script = self._request.helper or is_agent_made(self._request.text)
            script = (Round(),) if has_no_script else parse_rounds(self._request.text)
            self._number = find_round(script, self._request.results)
            current = script[self._number]
            uses = [choose_tool(call, self._request.tools) for call in current.calls]
        except BadScript as error:
            self._note("asked")
            self._refuse(400, f"bad script: {error}")
            return
        self._note("asked")
        try:
            self._play(current, uses)
        except (Stopped, ConnectionCut):
            self._note("dropped")
            raise
        except (ClientLeft, BrokenPipeError, ConnectionError):
            self._note("dropped" if self._gates.is_stopped else "left")
            raise

    def _play(self, current: Round, uses: list[ToolUse]) -> None:
        for pause in current.pauses:
            if pause.kind == "mute":
                self._hold(pause)
        failure = self._tally.take_failure(self._request, self._number, current.failures)
        if self._request.model.startswith("no-such"):
            self._refuse(404, f"model: {self._request.model}")
        elif failure and failure.kind == "error":
            self._refuse(failure.status, f"rehearsed error {failure.status}")
        else:
            self._answer(current, uses, failure)

    def _answer(self, current: Round, uses: list[ToolUse], failure: Failure | None) -> None:
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
        for use in uses:
            self._send(self._voice.call(use.tool, use.arguments))
        self._end(self._voice.finish(current.stop))
        self._note("called" if uses else "answered")

    def _text(self, current: Round) -> Iterator[str]:
        text = current.say
        if text is None:
            text = "" if current.calls else make_default(self._request)
        for start in range(0, len(text), PIECE):
            yield text[start : start + PIECE]

    # -- failures

    def _refuse(self, status: int, message: str) -> None:
        self._line.reply(status, self._make_error(status, message))
        self._note("refused")

    def _break(self, failure: Failure) -> None:
        """Send half an answer. Without streaming, cut the connection or send an error status. Raises
        ConnectionCut."""
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
        raise ConnectionCut

    # -- pauses

    def _hold(self, pause: Pause) -> None:
        if pause.name:
            self._note("held", gate=pause.name)
        match pause.kind:
            case "stream":
                end = time.monotonic() + pause.seconds
                self._wait_until(lambda wait: self._wait_for_time(end, wait), speaking=True)
            case "hang":
                self._say_word()
                self._wait_until(lambda wait: self._gates.wait(None, wait), speaking=False)
            case _:
                speaking = pause.kind == "gate"
                self._wait_until(lambda wait: self._gates.wait(pause.name, wait), speaking=speaking)

    def _wait_for_time(self, end: float, wait: float) -> bool:
        self._gates.wait(None, min(wait, max(0.0, end - time.monotonic())))
        return time.monotonic() >= end

    def _wait_until(self, is_over: Callable[[float], bool], *, speaking: bool) -> None:
        word_at = time.monotonic()
        while True:
            if speaking and time.monotonic() >= word_at:
                self._say_word()
                word_at += WORD_EVERY
            if is_over(GLANCE):
                return
            if self._line.is_gone():
                raise ClientLeft

    def _say_word(self) -> None:
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
        """Send frames, if the client streams. Otherwise `_end` sends the whole answer."""
        if self._request.streaming:
            self._line.send(frames)

    def _end(self, frames: str) -> None:
        if self._request.streaming:
            self._line.send(frames)
            self._line.close()
        else:
            self._line.reply(200, self._voice.whole_answer())
            self._note("began")

    def _note(self, kind: Kind, gate: str = "") -> None:
        request = self._request
        self._journal.add(kind, request.text, round_=self._number, helper=request.helper, gate=gate)
