"""Every family of metrics there is: its name, type, labels and meaning. docs/metrics.md is held to this
table, and so is the dashboard in docs/grafana.json."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from agentctl.metrics.exposition import Family, Sample, Type

# now     a state: looked at when asked, also without a daemon
# daemon  counted or measured by the daemon: from 0 when it starts
Origin = Literal["now", "daemon"]


FAMILY_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("name", "string", "of the family"),
    ("type", "string", "counter, gauge or histogram"),
    ("help", "string", "what it tells"),
    ("samples", "array", "name (of a histogram: with _bucket, _sum or _count), labels, value: a number, or NaN, +Inf, -Inf as a string"),
)  # fmt: skip


class Known(NamedTuple):
    type: Type
    labels: tuple[str, ...]
    origin: Origin
    help: str


FAMILIES: dict[str, Known] = {
    "agentctl_build_info": Known("gauge", ("version",), "now", "Always 1; the version of agentctl that answers."),
    "agentctl_sessions": Known("gauge", ("adapter", "status"), "now", "Live sessions by agent and status."),
    "agentctl_sessions_waiting": Known("gauge", ("adapter", "waiting_for"), "now", "Live sessions that wait for a person, by what for."),
    "agentctl_session_tokens": Known("gauge", ("adapter", "kind"), "now", "Tokens of live sessions so far, where their agents write them."),
    "agentctl_session_cost_usd": Known("gauge", ("adapter",), "now", "Cost of live sessions so far in US dollars, where their agents write it."),
    "agentctl_survey_adapter_seconds": Known("gauge", ("adapter",), "now", "How long this look at an agent's sessions took; missing: there was nothing to look at, or it was late."),
    "agentctl_survey_problems": Known("gauge", ("adapter", "kind"), "now", "Sources that this look could not read or understand; no adapter: of none."),
    "agentctl_launches": Known("gauge", ("state",), "now", "Launches that are remembered: live or ended."),
    "agentctl_locks": Known("gauge", ("holder",), "now", "Directories that are held now, by agents or by people."),
    "agentctl_fuses": Known("gauge", ("state",), "now", "Fuses that burn or are being fired."),
    "agentctl_deliveries": Known("gauge", ("kind", "target", "state"), "now", "Deliveries in the outbox: pending, delivered, dead (given up) or dropped (not needed); old ones are pruned."),
    "agentctl_state_problems": Known("gauge", ("kind",), "now", "1 where our own database could not be read: its metrics are missing then."),
    "agentctl_events_total": Known("counter", ("type",), "daemon", "Events told since the daemon started."),
    "agentctl_launches_total": Known("counter", ("adapter",), "daemon", "Launches since the daemon started."),
    "agentctl_sessions_ended_total": Known("counter", ("adapter", "outcome"), "daemon", "Sessions that ended since the daemon started, by outcome."),
    "agentctl_session_duration_seconds": Known("histogram", ("adapter",), "daemon", "How long the sessions that ended had lasted, from their first record on."),
    "agentctl_ended_session_tokens_total": Known("counter", ("adapter", "kind"), "daemon", "Tokens of the sessions that ended."),
    "agentctl_ended_session_cost_usd_total": Known("counter", ("adapter",), "daemon", "Cost in US dollars of the sessions that ended."),
    "agentctl_deliveries_total": Known("counter", ("kind", "target", "result"), "daemon", "Deliveries that came to an end, by target and result."),
    "agentctl_survey_duration_seconds": Known("histogram", (), "daemon", "How long a look at all sessions takes, for metrics."),
    "agentctl_daemon_start_time_seconds": Known("gauge", (), "daemon", "When the daemon's process began, in seconds since 1970."),
    "agentctl_daemon_memory_bytes": Known("gauge", ("kind",), "daemon", "The daemon's memory: resident, and private (what it alone uses)."),
    "agentctl_daemon_cpu_seconds_total": Known("counter", (), "daemon", "Processor time that the daemon has used."),
}  # fmt: skip


def family(name: str, samples: Iterable[Sample]) -> Family:
    known = FAMILIES[name]
    return Family(name, known.type, known.help, list(samples))


def only_of_a_daemon() -> list[str]:
    return [name for name, known in FAMILIES.items() if known.origin == "daemon"]
