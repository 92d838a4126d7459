"""Runs inside a pid namespace of its own, where nobody else's agents are: a daemon looks on, sessions of
a fake Claude Code begin and end before and after a rehearsal, and nobody is told of the rehearsal.
Called by verbs/test_doctor.py with a directory."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from agentctl.sessions import query
from agentctl.truth.survey import Wanted
from tests.fakes.claude import ClaudeStage
from tests.fakes.talking_claude import TalkingStage
from tests.running import Ran, agentctl_in, environ_of
from tests.waiting import until

TOLD = 'printf "%s\\n" "$AGENTCTL_SESSION_ID" >> '


def main(directory: str) -> None:
    talking, stage = TalkingStage(Path(directory)), ClaudeStage(Path(directory))
    stage.environ["PATH"] = f"{talking.install().parent}:/usr/bin:/bin"
    environ = environ_of(stage)
    del environ["AGENTCTL_CONFINE"]  # all that is here is ours
    environ["AGENTCTL_ALONE"] = "1"
    told = stage.root / "told"
    settings = Path(environ["AGENTCTL_HOME"], "config.toml")
    settings.parent.mkdir(mode=0o700)
    settings.write_text(f"[notify.file]\ncommand = '''{TOLD}{told}'''\n")
    settings.chmod(0o600)

    def run(*words: str) -> Ran:
        return agentctl_in(environ, *words)

    def events() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = run("history", "--json", "-n", "1000").json()["events"]
        return found

    def session() -> str:
        """One that the daemon tells of, to its end."""
        puppet = stage.start(environ={"AGENTCTL_CONFINE": ""})
        puppet.do("work")
        puppet.do("ask")
        known = str(puppet.session_id)
        until(lambda: told.exists() and known in told.read_text(), f"a notification of {known}")
        puppet.finish()
        until(
            lambda: any(_ends(event, known) for event in events()), f"the end of {known} in the journal"
        )
        return known

    assert run("daemon", "start").code == 0
    try:
        known = {session()}
        rehearsal = subprocess.Popen(
            [sys.executable, "-m", "agentctl", "doctor", "--live", "claude-code", "--json"],
            env=environ,
            stdout=subprocess.PIPE,
        )
        looks = 0
        while rehearsal.poll() is None:
            looks += 1
            for row in query.everything(Wanted(), environ=environ).sessions:
                assert row.seen.session_id in known, f"a rehearsal is listed: {row.seen}"
        assert rehearsal.stdout is not None
        assert rehearsal.returncode == 0, rehearsal.stdout.read().decode()
        assert looks > 10, "nobody looked meanwhile"
        known.add(session())
        before_that = {puppet.identity.address for puppet in stage.puppets}  # they had a record
        seen = {event["subject"] for event in events() if event["session"]} - before_that
        assert seen == known, f"events of {seen}, not of {known}"
        assert set(told.read_text().split()) == known
        print("told to nobody")
    finally:
        run("daemon", "stop")
        stage.close()


def _ends(event: dict[str, Any], session_id: str) -> bool:
    return (event["type"], event["subject"]) == ("session.stopped", session_id)


if __name__ == "__main__":
    os.umask(0o077)
    main(*sys.argv[1:])
