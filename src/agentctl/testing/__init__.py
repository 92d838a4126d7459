"""For authors of adapters: fake agents that are real processes, and the contract suite.

    from agentctl.testing import AdapterContract, Stage

A `Stage` is a private home in which fake agents run; a `Puppet` is one of them, driven by the test;
`Player` is what a fake agent's program is made of. Needs pytest.
"""

from agentctl.light_typing import TYPE_CHECKING
from agentctl.testing.puppet import Puppet
from agentctl.testing.stage import Stage

if TYPE_CHECKING:
    from agentctl.testing.contract import AdapterContract

__all__ = ["AdapterContract", "Puppet", "Stage"]


def __getattr__(name: str) -> object:
    # A fake agent imports its Player from here, under an interpreter that may have no pytest.
    if name == "AdapterContract":
        from agentctl.testing.contract import AdapterContract

        return AdapterContract
    raise AttributeError(name)
