"""Rehearse beside a daemon, in a pid namespace of our own, where no other agents run.

Sessions of a fake Claude Code begin and end before and after the rehearsal. The daemon records them and
notifies of them, and of nothing in the rehearsal. verbs/test_doctor.py runs this with a directory."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from agentctl.sessions import query
from agentctl.truth.survey import HistoryQuery
from tests.fakes.claude import ClaudeStage
from tests.fakes.talking_claude import TalkingStage
from tests.running import Ran, agentctl_in, environ_of
from tests.waiting import until

APPEND_ID = 'printf "%s\\n" "$AGENTCTL_SESSION_ID" >> '


def main(directory: str) -> None:
    talking, stage = TalkingStage(Path(directory)), ClaudeStage(Path(directory))
    stage.environ["PATH"] = f"{talking.install().parent}:/usr/bin:/bin"
    environ = environ_of(stage)
    del environ["AGENTCTL_CONFINE"]  # all that is here is ours
    environ["AGENTCTL_ALONE"] = "1"
    notifications = stage.root / "notifications"
    settings = Path(environ["AGENTCTL_HOME"], "config.toml")
    settings.parent.mkdir(mode=0o700)
    settings.write_text(f"[notify.file]\ncommand = '''{APPEND_ID}{notifications}'''\n")
    settings.chmod(0o600)

    def run(*words: str) -> Ran:
        return agentctl_in(environ, *words)

    def events() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = run("history", "--json", "-n", "1000").json()["events"]
        return rows

    def session() -> str:
        """Run one session that the daemon notifies of, to its end."""
        puppet = stage.start(environ={"AGENTCTL_CONFINE": ""})
        puppet.do("work")
        puppet.do("ask")
        session_id = str(puppet.session_id)
        until(
            lambda: notifications.exists() and session_id in notifications.read_text(),
            f"a notification of {session_id}",
        )
        puppet.finish()
        until(
            lambda: any(_ends(event, session_id) for event in events()),
            f"the end of {session_id} in the journal",
        )
        return session_id

    assert run("daemon", "start").code == 0
    try:
        ids = {session()}
        rehearsal = subprocess.Popen(
            [sys.executable, "-m", "agentctl", "doctor", "--live", "claude-code", "--json"],
            env=environ,
            stdout=subprocess.PIPE,
        )
        looks = 0
        while rehearsal.poll() is None:
            looks += 1
            for row in query.survey_sessions(HistoryQuery(), environ=environ).sessions:
                assert row.observation.session_id in ids, f"a rehearsal is listed: {row.observation}"
        assert rehearsal.stdout is not None
        assert rehearsal.returncode == 0, rehearsal.stdout.read().decode()
        assert looks > 10, "too few looks during the rehearsal"
        ids.add(session())
        early_addresses = {
            puppet.identity.address for puppet in stage.puppets
        }  # events from before they had a record
        subjects = {event["subject"] for event in events() if event["session"]} - early_addresses
        assert subjects == ids, f"events of {subjects}, not of {ids}"
        assert set(notifications.read_text().split()) == ids
        print("the rehearsal stayed private")
    finally:
        run("daemon", "stop")
        stage.close()


def _ends(event: dict[str, Any], session_id: str) -> bool:
    return (event["type"], event["subject"]) == ("session.stopped", session_id)


if __name__ == "__main__":
    os.umask(0o077)
    main(*sys.argv[1:])
