"""Every public JSON object has the fields of its table in docs/reference/json.md, in their order."""

from typing import Any

import pytest

from agentctl.config.keys import Notify, Setting
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.event import Event
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Launch, Message, Observation, Problem, Session, Worktree
from agentctl.wire import doctor, event, session, state, webhook, worktree
from agentctl.wire.session import Fields
from tests.wire import test_state as example

SESSION = Session(Observation("demo", None, ()), judge(()), Launch("1a", ProcessIdentity("b", 7, 9)))
WORKTREE_STATE = dict.fromkeys(("there", "ahead", "behind", "dirty", "merged", "pushed", "unknown"))
NOTHING: Setting[Any] = Setting(None)
EMPTY: Setting[tuple[str, ...]] = Setting(())
NOTIFY = Notify(
    "desk",
    {
        "desktop": Setting(True),
        **dict.fromkeys(("url", "command", "title", "priority", "token"), NOTHING),
        **dict.fromkeys(("on", "adapters", "groups"), EMPTY),
    },
)
WEBHOOKS = state.dump_webhooks(
    [state.WebhookTarget("ci", example.HOOK, ()), state.WebhookTarget("old", None, ())],
    [example.delivery("pending", 1.0)],
)
TABLES: list[tuple[Fields, list[dict[str, Any]]]] = [
    (session.SESSION_FIELDS, [session.dump_session(session.wire_session(SESSION))]),
    (session.LAUNCH_FIELDS, [session.dump_session(session.wire_session(SESSION))["launch"]]),
    (
        session.EVIDENCE_FIELDS,
        [session.dump_evidence(Evidence("gone", "/proc", "kernel"), decided=True)],
    ),
    (session.PROBLEM_FIELDS, [session.dump_problem(Problem("", "gone", "x"))]),
    (session.MESSAGE_FIELDS, [session.dump_message(Message("k", "user", "x"))]),
    (event.EVENT_FIELDS, [event.dump_event(Event("session.idle", 1.0))]),
    (webhook.PAYLOAD_FIELDS, [webhook.make_payload(Event("session.idle", 1.0), "d")]),
    (state.LOCK_FIELDS, [state.dump_lock(example.PERSON), state.dump_lock(example.AGENT)]),
    (state.FUSE_FIELDS, [state.dump_fuse(example.FUSE, example.NOW)]),
    (state.SETTING_FIELDS, state.dump_settings("/f", [("k", None, "default", "")])["settings"]),
    (state.PRUNED_FIELDS, state.dump_pruned([("lock", "/d", "w")], [], dry_run=True)["pruned"]),
    (state.DAEMON_FIELDS, [state.dump_daemon({"pid": 7, "something": "newer"})["daemon"]]),
    (state.WEBHOOK_FIELDS, WEBHOOKS["targets"]),
    (state.DELIVERY_FIELDS, WEBHOOKS["deliveries"]),
    (state.WEBHOOK_TEST_FIELDS, state.dump_webhook_tests([(example.HOOK, 200, 0.1, None)])["tests"]),
    (state.NOTIFY_FIELDS, state.dump_notify_targets([NOTIFY], {}, {})["targets"]),
    (doctor.AGENT_FIELDS, [doctor.dump_agent("codex", "not checked", "no sandbox")]),
    (
        worktree.WORKTREE_FIELDS,
        [
            worktree.dump_worktree(
                Worktree("/r", "/r-worktrees/a", "a", "4f2a"),
                branch="a",
                group=None,
                state=WORKTREE_STATE,
                sessions=(),
            )
        ],
    ),
]


@pytest.mark.parametrize(("fields", "objects"), TABLES)
def test_an_object_has_the_fields_of_its_table(fields: Fields, objects: list[dict[str, Any]]) -> None:
    assert all(name and kind and meaning for name, kind, meaning in fields)
    assert [list(each) for each in objects] == [[name for name, _, _ in fields]] * len(objects)
    assert objects


def test_every_table_is_checked() -> None:
    modules = (doctor, event, session, state, webhook, worktree)
    tables = {
        name: table
        for module in modules
        for name, table in vars(module).items()
        if name.endswith("_FIELDS")
    }
    checked = [fields for fields, _ in TABLES]
    # dumped by stop, fuses, rehearsal
    elsewhere = {"STOPPED_FIELDS", "FUSE_RESULT_FIELDS", "STEP_FIELDS"}
    assert {name for name, table in tables.items() if table not in checked} == elsewhere
