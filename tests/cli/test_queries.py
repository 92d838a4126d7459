"""An answer depends on the asker, not on the process that answers."""

from agentctl.cli import queries
from agentctl.cli.queries import Asker, ListOptions
from tests.fakes.demo import DemoStage
from tests.running import environ_of


def test_a_relative_directory_is_the_asker_s(stage: DemoStage) -> None:
    puppet = stage.start()
    assert puppet.session_id is not None
    for cwd, count in ((str(stage.work), 1), ("/nonexistent", 0)):
        sessions = queries.list_sessions(
            ListOptions(cwd="."), Asker(environ_of(stage), None, cwd)
        ).sessions
        assert len(sessions) == count
