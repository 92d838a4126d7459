"""The published page, docs/accuracy.md, from what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.real.accuracy.tally import (
    STATES,
    Change,
    Counted,
    StreamCount,
    Tally,
    bad_findings,
    count_stream,
    tally,
)

OURS = "agentctl"
BAR = 0.99  # of the settled samples must be exactly right

_HEAD = """\
# How often agentctl is right

<!-- Written by `make accuracy`: run it again instead of editing. -->

Real agents, offline, driven by a script: a fake model that stops where it is told to, keys typed into a
terminal, signals. So the driver *knows* what each agent is doing. Meanwhile `{command}` is asked every
{interval:.0f} ms and at every change, and each answer is held against that knowledge.

Measured {date} on Linux {kernel}, Python {python}, {cores} cores; {agents}. Again, by one command:
`make accuracy` (half an hour). What is played: [scenarios](scenarios.md).
All numbers: [accuracy.json](accuracy.json).
"""
_WORDS = """\
- **Settled**: half a second after the driver knew of a change, until it did the next thing. Only settled
  answers are counted as right or wrong. *Unknown* is an answer that says it cannot tell, and why; of
  agentctl also `running` with `activity: unknown`.
- **Wrong stopped**: an answer, at any moment, that a session has ended, while the kernel still had its
  process when the answer was in. **Said alive**: an answer that a session lives, though its process had
  ended before the question was put. Neither has a grace period.
- **Noticed after**: from the moment the driver knew (the model had the request, the last byte of its
  answer was sent, the dialog was on the screen, the kernel had ended the process) to the first answer in
  hand that says so. That includes the agent's own delay, the wait for the next question and the command.
"""
_STREAM = """\
`agentctl events`, and a notification target, in the same run, while the questions above keep both cores
busy. Every event counts, also between two settled moments.

- **Changes**: the states that the driver brought about while a daemon ran. **Missing**: no event reports
  the change until two seconds after the next change; a change that cannot be known from outside (below)
  need not be reported. **Delay**: from the moment the driver knew to the event in the journal; 0 if the
  event came first.
- **False**: the driver knows that the claim of the event was not true at any moment of the two seconds
  before it, or that it goes back behind the event before. Between an act and its known result, the state
  before, a turn if there may have been one, and the state after are all accepted, in this order;
  `waiting` only if the agent asked a person, `stopped` only after the kernel ended the process. Also
  false: another outcome, another reason to wait, another session's process, a start or an end that
  repeats the last one. **Ghosts**: those of the false events that are about a session or process which
  is no session of the driver, however short it lived.
- **Cannot tell**: `session.unknown`, and `session.running` with an unknown activity. They make no claim.
  **Unfounded**: the state cannot be known from outside, and the last event claims another one.
- **Notifications**: `waiting`, `finished` and `failed`, as the target received them. There is none for a
  wait if somebody has just typed at that terminal, as the driver does. False: its event is false, or the
  state was over for two seconds when it arrived.
"""


def page(measured: Mapping[str, Any]) -> str:
    plays: Mapping[str, Sequence[Mapping[str, Any]]] = measured["agents"]
    tallies = {agent: tally(agent_plays, OURS) for agent, agent_plays in plays.items()}
    stream: Mapping[str, Sequence[Mapping[str, Any]]] = measured.get("stream", {})
    parts = [
        _HEAD.format(**measured["run"]),
        _verdict(tallies, {agent: count_stream(findings) for agent, findings in stream.items()}, plays),
        "## Every state\n\n" + _states(tallies) + "\n" + _WORDS,
        "## How soon\n\n" + _changes(tallies),
        _stream(stream),
        _blind(tallies),
        *(_other(tool, plays) for tool in measured["tools"] if tool["name"] != OURS),
        _not_measured(measured["absent"]),
    ]
    return "\n".join(part for part in parts if part)


def met(tallies: Iterable[Tally], stream: Iterable[StreamCount] = ()) -> dict[str, bool]:
    """The bar, line by line."""
    every, streams = list(tallies), list(stream)
    total = _sum([one.total for one in every])
    bar = {
        "no wrong `stopped` for a live process": not any(one.wrong_stopped for one in every),
        "no `running`, `idle` or `waiting` for a dead one": not any(one.said_alive for one in every),
        f"at least {BAR:.0%} of the settled samples exactly right": (total.share or 0) >= BAR,
        "the rest `unknown`, with a reason": total.wrong == 0,
        "no change missed": not any(one.missed for one in every),
    }
    if streams:
        bar["no false event"] = not any(one.false for one in streams)
        bar["no change without an event"] = not any(one.missing for one in streams)
        bar["no false notification"] = not any(one.false_notifications for one in streams)
    return bar


def list_repeats(plays: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[str]]:
    """Return the plays that were played again after the whole run, by agent."""
    repeats = {
        agent: [play["play"] for play in agent_plays if play.get("again")]
        for agent, agent_plays in plays.items()
    }
    return {agent: titles for agent, titles in repeats.items() if titles}


def _verdict(
    tallies: Mapping[str, Tally],
    stream: Mapping[str, StreamCount],
    plays: Mapping[str, Sequence[Mapping[str, Any]]],
) -> str:
    total = _sum([one.total for one in tallies.values()])
    bar = met(tallies.values(), stream.values())
    lines = [f"- {'met' if yes else '**not met**'}: {what}" for what, yes in bar.items()]
    broken = [
        f"- not played to its end: {agent}, {play['play']}: {play['broken'].splitlines()[0]}"
        for agent, agent_plays in plays.items()
        for play in agent_plays
        if play["broken"]
    ]
    repeats = [
        f"- played again, after the run that all others are from: {agent}, {', '.join(titles)}"
        for agent, titles in list_repeats(plays).items()
    ]
    count = sum(len(agent_plays) for agent_plays in plays.values())
    summary = (
        f"{count} plays, {total.samples} settled answers: {_percent(total)} right, {total.wrong} wrong, "
        f"{total.unknown} unknown; {sum(t.wrong_stopped for t in tallies.values())} wrong `stopped`, "
        f"{sum(t.said_alive for t in tallies.values())} said alive; "
        f"{sum(t.missed for t in tallies.values())} changes missed."
    )
    if stream:
        summary += "\n\n" + _stream_summary(list(stream.values()))
    return "## The bar\n\n" + summary + "\n\n" + "\n".join([*lines, *broken, *repeats]) + "\n"


def _states(tallies: Mapping[str, Tally]) -> str:
    rows = []
    for agent, one in tallies.items():
        rows += [
            [agent, state, *_numbers(one.states[state])] for state in STATES if one.states[state].samples
        ]
        rows.append([agent, "**all**", *_numbers(one.total)])
    head = ["agent", "truth", "samples", "right", "wrong", "unknown", "right"]
    faults = [
        [agent, one.asked, one.wrong_stopped, one.said_alive, one.missed]
        for agent, one in tallies.items()
    ]
    return (
        _table(head, rows)
        + "\n"
        + _table(["agent", "questions asked", "wrong stopped", "said alive", "changes missed"], faults)
    )


def _changes(tallies: Mapping[str, Tally]) -> str:
    rows = [
        [agent, change, *_latency(one_change)]
        for agent, one in tallies.items()
        for change, one_change in one.changes.items()
    ]
    gaps = ", ".join(f"{agent} {one.gap * 1000:.0f} ms" for agent, one in tallies.items())
    took = ", ".join(f"{agent} {one.took * 1000:.0f} ms" for agent, one in tallies.items())
    return (
        _table(["agent", "change", "times", "missed", "noticed after, median", "p95"], rows)
        + f"\nBetween two questions (median): {gaps}. One answer took: {took}.\n"
    )


def _stream_summary(stream: Sequence[StreamCount]) -> str:
    changes, false = sum(one.changes for one in stream), sum(one.false for one in stream)
    share = 100 * false / changes if changes else 0.0
    return (
        f"{changes} changes, {sum(one.events for one in stream)} events: {false} false "
        f"(**{share:.2f} false events per 100 changes**), {sum(one.missing for one in stream)} changes "
        f"missing; {sum(one.notifications for one in stream)} notifications, "
        f"{sum(one.false_notifications for one in stream)} false."
    )


def _stream(stream: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    if not stream:
        return ""
    head = ["agent", "changes", "events", "false", "false per 100 changes", "ghosts", "missing"]
    head += ["delay, median", "p95", "cannot tell", "unfounded", "gaps", "notifications", "false"]
    rows = [[agent, *_stream_row(count_stream(findings))] for agent, findings in stream.items()]
    title = "## Events and notifications\n\n"
    return title + _table(head, rows) + "\n" + _STREAM + _stream_faults(stream)


def _stream_row(one: StreamCount) -> list[object]:
    return [
        one.changes,
        one.events,
        one.false,
        f"{one.per_100_changes or 0:.2f}",
        one.ghosts,
        one.missing,
        f"{one.median * 1000:.0f} ms",
        f"{one.p95 * 1000:.0f} ms",
        one.unknown,
        one.unfounded,
        one.gaps,
        one.notifications,
        one.false_notifications,
    ]


def _stream_faults(stream: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Each kind of fault once, with how often it happened."""
    counted: Counter[tuple[str, ...]] = Counter(
        (agent, fault["kind"], fault["play"], fault["said"], fault["truth"])
        for agent, findings in stream.items()
        for fault in bad_findings(findings)
        if fault["kind"] != "gap"
    )
    if not counted:
        return ""
    head = ["agent", "fault", "play", "event", "what was true, or changed", "times"]
    return "\n" + _table(head, [[*key, times] for key, times in counted.items()])


def _blind(tallies: Mapping[str, Tally]) -> str:
    rows = [
        [agent, state, why, *_numbers(counted)[:4]]
        for agent, one in tallies.items()
        for (state, why), counted in one.blind.items()
    ]
    if not rows:
        return ""
    intro = "Not in the numbers above. The evidence is in [the agents' page](adapters/agents.md).\n\n"
    head = [
        "agent",
        "truth",
        "why nothing outside the agent tells",
        "samples",
        "right",
        "wrong",
        "unknown",
    ]
    return "## What cannot be known from outside\n\n" + intro + _table(head, rows)


def _other(tool: Mapping[str, Any], plays: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    covered = {
        agent: tally(agent_plays, tool["name"])
        for agent, agent_plays in plays.items()
        if agent in tool["agents"]
    }
    rows = [
        [
            agent,
            *_numbers(one.total),
            one.wrong_stopped,
            one.said_alive,
            one.missed,
            f"{one.took * 1000:.0f} ms",
        ]
        for agent, one in covered.items()
    ]
    head = [
        "agent",
        "samples",
        "right",
        "wrong",
        "unknown",
        "right",
        "wrong stopped",
        "said alive",
        "missed",
        "took",
    ]
    how = "Measured in the same run, in turn with the other tools and at low priority."
    about = f"{how}\n\n```text\n{tool['note']}\n```\n\n"
    return f"## {tool['name']} {tool['version']}\n\n" + about + _table(head, rows)


def _not_measured(absent: Mapping[str, str]) -> str:
    return "\n".join(f"Not measured: {name} ({why})." for name, why in absent.items())


def _sum(counted: Iterable[Counted]) -> Counted:
    return Counted(*(sum(numbers) for numbers in zip(*counted, strict=True)))


def _numbers(counted: Counted) -> list[str]:
    return [
        *map(str, (counted.samples, counted.right, counted.wrong, counted.unknown)),
        _percent(counted),
    ]


def _percent(counted: Counted) -> str:
    return "" if counted.share is None else f"{counted.share:.2%}"


def _latency(change: Change) -> list[str]:
    return [
        str(change.noticed),
        str(change.missed),
        f"{change.median * 1000:.0f} ms",
        f"{change.p95 * 1000:.0f} ms",
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)
