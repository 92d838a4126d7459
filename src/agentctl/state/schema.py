"""The tables of our database, as ordered migrations."""

from __future__ import annotations

# The event → outbox trigger
#
# `journal.append_event` inserts a row into `event`; this trigger inserts one row into `outbox` for each
# target that wants the event, in the same transaction, so both exist or neither. Events about deliveries
# do not cause deliveries: that would never end.
EVENT_TO_OUTBOX = """
    create trigger event_wanted after insert on event
    when new.type not glob 'webhook.*' and new.type not glob 'notify.*'
    begin
        insert into outbox (id, kind, target, seq, created_at, due_at)
        select lower(hex(randomblob(16))), kind, name, new.seq, new.seen_at, new.seen_at
        from target
        where exists (select 1 from json_each(events) where new.type glob value)
        and (adapters is null or new.adapter in (select value from json_each(adapters)))
        and (groups is null or new."group" in (select value from json_each(groups)))
        and (outcomes is null or new.type <> 'session.stopped'
            or json_extract(new.body, '$.session.outcome') in (select value from json_each(outcomes)));
    end
    """

# Each runs once, in order; `pragma user_version` counts those that ran. Never edit one: append one.
MIGRATIONS = (
    """
    create table launch (
        id text primary key,
        boot text not null, pid integer not null, start integer not null,
        session_id text, name text, "group" text, spec text,
        meta text not null default '{}',
        created_at real not null
    ) strict
    """,
    # What only the user and `launch/finish` need, as JSON, so a new fact needs no migration.
    "alter table launch add column detail text not null default '{}'",
    "alter table launch add column ended_at real",
    "alter table launch add column exit_code integer",
    "alter table launch add column finished_at real",
    """
    create table lock (
        directory text not null,
        launch text not null default '', -- empty: the user's own lock
        boot text, pid integer, start integer, namespace text, -- its owner; null for the user's own
        "by" text, reason text,
        created_at real not null, expires_at real,
        primary key (directory, launch)
    ) strict
    """,
    # autoincrement: no number is used twice, even after its row is pruned
    """
    create table event (
        seq integer primary key autoincrement,
        type text not null,
        at real, seen_at real not null,
        adapter text, subject text, "group" text,
        body text not null default '{}' -- session, evidence, data
    ) strict
    """,
    "create index event_subject on event (adapter, subject, type)",
    "create index event_seen on event (seen_at)",
    # The last event of each session. SQLite takes the type from the row of the maximum.
    """
    create view last_word as
        select max(seq) as seq, type from event where type glob 'session.*' group by adapter, subject
    """,
    # Which webhook or notification wants which events. No addresses and no secrets.
    """
    create table target (
        kind text not null, name text not null,
        events text not null, -- patterns, as JSON; in the other columns null means all
        adapters text, groups text, outcomes text,
        primary key (kind, name)
    ) strict
    """,
    """
    create table outbox (
        id text primary key, -- of the delivery
        kind text not null, target text not null, url text,
        seq integer not null, -- of the event
        created_at real not null, due_at real not null,
        first_at real, attempted_at real, -- the first attempt, and the last
        attempt integer not null default 0,
        phase text not null default 'pending', -- then delivered, or dead
        error text, delivered_at real
    ) strict
    """,
    "create index outbox_phase on outbox (phase, due_at)",
    "create index outbox_seq on outbox (seq)",
    EVENT_TO_OUTBOX,
    # `due_boot` counts on the boot clock, which runs while the machine sleeps and cannot be set. After a
    # reboot the time of day, `due_at`, counts.
    """
    create table fuse (
        id text primary key,
        directory text, -- the fuse is on one of these
        adapter text, session_id text, launch text,
        cwd text, -- where its command runs
        label text,
        actions text not null, -- as JSON
        created_at real not null,
        boot text not null, due_boot real not null, due_at real not null,
        phase text not null default 'burning', -- then firing, then fired or failed; or cancelled
        claimed_at real, claimed_by text, -- as JSON: boot, pid, start, namespace
        results text, -- as JSON: one per action, null until it is confirmed
        settled_at real,
        reason text, -- why it was cancelled
        cancelled_by text -- a launch; if it fails, the fuse is set again
    ) strict
    """,
    "create index fuse_phase on fuse (phase, due_at)",
    # A process that got a session is no session of its own any more: its last event is a stop.
    "drop view last_word",
    """
    create view last_word as
        select max(seq) as seq, type from (
            select seq, type, adapter, subject from event where type glob 'session.*'
            union all
            select seq, 'session.stopped', adapter, json_extract(body, '$.data.was') from event
            where type = 'session.identified'
        ) group by adapter, subject
    """,
)
