"""The table of all families of metrics: name, type, labels and meaning. Tests compare docs/metrics.md and
the dashboard in docs/grafana.json with this table."""

from __future__ import annotations

from agentctl.light_typing import Iterable, Literal, NamedTuple
from agentctl.metrics.exposition import Family, Sample, Type
from agentctl.wire.session import Fields

# now     a state: read when asked, also without a daemon
# daemon  counted or measured by the daemon: from 0 at its start
Origin = Literal["now", "daemon"]


FAMILY_FIELDS: Fields = (
    ("name", "string", "of the family"),
    ("type", "string", "counter, gauge or histogram"),
    ("help", "string", "what it measures"),
    ("samples", "array", "name (of a histogram: with _bucket, _sum or _count), labels, value: a number, or NaN, +Inf, -Inf as a string"),
)  # fmt: skip


class FamilySpec(NamedTuple):
    type: Type
    labels: tuple[str, ...]
    origin: Origin
    help: str


FAMILIES: dict[str, FamilySpec] = {
    "agentctl_build_info": FamilySpec("gauge", ("version",), "now", "Always 1; the version of agentctl that answers."),
    "agentctl_sessions": FamilySpec("gauge", ("adapter", "status"), "now", "Live sessions by agent and status."),
    "agentctl_sessions_waiting": FamilySpec("gauge", ("adapter", "waiting_for"), "now", "Live sessions that wait for the user, by what for."),
    "agentctl_session_tokens": FamilySpec("gauge", ("adapter", "kind"), "now", "Tokens of live sessions so far, if their agents record them."),
    "agentctl_session_cost_usd": FamilySpec("gauge", ("adapter",), "now", "Cost of live sessions so far in US dollars, if their agents record it."),
    "agentctl_survey_adapter_seconds": FamilySpec("gauge", ("adapter",), "now", "Seconds that this look at the sessions of an agent took; missing: there was nothing to look at, or it was late."),
    "agentctl_survey_problems": FamilySpec("gauge", ("adapter", "kind"), "now", "Sources that this look could not read or understand; an empty adapter: of no single agent."),
    "agentctl_launches": FamilySpec("gauge", ("state",), "now", "Launches that have a launch note: live or ended."),
    "agentctl_locks": FamilySpec("gauge", ("holder",), "now", "Locks on directories that are held now, by agents or by people."),
    "agentctl_fuses": FamilySpec("gauge", ("state",), "now", "Fuses that are set (burning) or firing."),
    "agentctl_deliveries": FamilySpec("gauge", ("kind", "target", "state"), "now", "Deliveries in the outbox: pending, delivered, dead (given up) or dropped (not needed); old ones are pruned."),
    "agentctl_state_problems": FamilySpec("gauge", ("kind",), "now", "1 if our own database could not be read: its metrics are missing then."),
    "agentctl_events_total": FamilySpec("counter", ("type",), "daemon", "Events recorded since the daemon started."),
    "agentctl_launches_total": FamilySpec("counter", ("adapter",), "daemon", "Launches since the daemon started."),
    "agentctl_sessions_ended_total": FamilySpec("counter", ("adapter", "outcome"), "daemon", "Sessions that ended since the daemon started, by outcome."),
    "agentctl_session_duration_seconds": FamilySpec("histogram", ("adapter",), "daemon", "How long the sessions that ended had lasted, from their first record."),
    "agentctl_ended_session_tokens_total": FamilySpec("counter", ("adapter", "kind"), "daemon", "Tokens of the sessions that ended."),
    "agentctl_ended_session_cost_usd_total": FamilySpec("counter", ("adapter",), "daemon", "Cost in US dollars of the sessions that ended."),
    "agentctl_deliveries_total": FamilySpec("counter", ("kind", "target", "result"), "daemon", "Deliveries that came to an end, by target and result."),
    "agentctl_survey_duration_seconds": FamilySpec("histogram", (), "daemon", "How long a look at all sessions takes, for metrics."),
    "agentctl_daemon_start_time_seconds": FamilySpec("gauge", (), "daemon", "When the daemon started, in seconds since 1970."),
    "agentctl_daemon_memory_bytes": FamilySpec("gauge", ("kind",), "daemon", "The daemon's memory: resident, and private (what it alone uses)."),
    "agentctl_daemon_cpu_seconds_total": FamilySpec("counter", (), "daemon", "Processor time that the daemon has used."),
}  # fmt: skip


def make_family(name: str, samples: Iterable[Sample]) -> Family:
    spec = FAMILIES[name]
    return Family(name, spec.type, spec.help, list(samples))


def daemon_only_names() -> list[str]:
    return [name for name, spec in FAMILIES.items() if spec.origin == "daemon"]
