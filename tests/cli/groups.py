"""Demo agents with the labels that `launch` would give them."""

from agentctl import paths
from agentctl.state import launch_writes
from agentctl.testing import Puppet, Stage
from agentctl.truth.model import Launch


def id_of(puppet: Puppet) -> str:
    assert puppet.session_id is not None
    return puppet.session_id


def add_to_group(stage: Stage, *puppets: Puppet) -> None:
    """Note each as a launch of the group "g"."""
    for puppet in puppets:
        note = Launch(f"l{puppet.pid}", puppet.identity, puppet.session_id, group="g", created_at=1.0)
        launch_writes.begin_launch(paths.database_file(stage.environ["AGENTCTL_HOME"]), note)
