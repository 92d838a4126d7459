-- The schema that agentctl 0.1 wrote, as sqlite_master holds it. Never edit: databases like this exist.
CREATE TABLE launch (
        id text primary key,
        boot text not null, pid integer not null, start integer not null,
        session_id text, name text, "group" text, spec text,
        meta text not null default '{}',
        created_at real not null
    , detail text not null default '{}', ended_at real, exit_code integer, finished_at real) strict
    ;
CREATE TABLE lock (
        directory text not null,
        launch text not null default '', -- empty: a person's own
        boot text, pid integer, start integer, namespace text, -- who holds it; null for a person's own
        "by" text, reason text,
        created_at real not null, expires_at real,
        primary key (directory, launch)
    ) strict
    ;
CREATE TABLE event (
        seq integer primary key autoincrement,
        type text not null,
        at real, seen_at real not null,
        adapter text, subject text, "group" text,
        body text not null default '{}' -- session, evidence, data
    ) strict
    ;
CREATE INDEX event_subject on event (adapter, subject, type);
CREATE INDEX event_seen on event (seen_at);
CREATE TABLE target (
        kind text not null, name text not null,
        events text not null, -- patterns, as JSON; the others are null for: all
        adapters text, groups text, outcomes text,
        primary key (kind, name)
    ) strict
    ;
CREATE TABLE outbox (
        id text primary key, -- of the delivery
        kind text not null, target text not null, url text,
        seq integer not null, -- of the event
        created_at real not null, due_at real not null,
        first_at real, attempted_at real, -- the first try, and the last
        attempt integer not null default 0,
        phase text not null default 'pending', -- then delivered, or dead
        error text, delivered_at real
    ) strict
    ;
CREATE INDEX outbox_phase on outbox (phase, due_at);
CREATE INDEX outbox_seq on outbox (seq);
CREATE TRIGGER event_wanted after insert on event
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
    end;
CREATE TABLE fuse (
        id text primary key,
        directory text, -- one of these is what it is on
        adapter text, session_id text, launch text,
        cwd text, -- where its command runs
        label text,
        actions text not null, -- as JSON
        created_at real not null,
        boot text not null, due_boot real not null, due_at real not null,
        phase text not null default 'burning', -- then firing, then fired or failed; or cancelled
        claimed_at real, claimed_by text, -- as JSON: boot, pid, start, namespace
        results text, -- as JSON: of each action that is confirmed
        settled_at real,
        reason text, -- why it was cancelled
        cancelled_by text -- the launch that cancelled it: should that fail, it burns on
    ) strict
    ;
CREATE INDEX fuse_phase on fuse (phase, due_at);
CREATE VIEW last_word as
        select max(seq) as seq, type from (
            select seq, type, adapter, subject from event where type glob 'session.*'
            union all
            select seq, 'session.stopped', adapter, json_extract(body, '$.data.was') from event
            where type = 'session.identified'
        ) group by adapter, subject;
pragma user_version = 19;
