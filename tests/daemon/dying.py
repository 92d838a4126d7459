"""A courier that is killed before the Nth line of ours that a delivery runs: `dying.py HOME N`. With 0
it lives, and prints how many lines there were when all was settled."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

import agentctl
from agentctl.daemon.parts.deliverer import Courier
from agentctl.deliver.policy import Policy
from agentctl.deliver.webhook import Webhooks
from agentctl.state import outbox
from tests.waiting import until

OURS = os.path.dirname(agentctl.__file__)


class Hasty(Webhooks):
    policy = Policy(first=0.01, most=0.02)


class Death:
    def __init__(self, line: int) -> None:
        self.line = line
        self.seen = 0

    def trace(self, frame: FrameType, _: str, __: Any) -> Any:
        """Of the threads that deliver, in our own files."""
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        return self.step if threading.current_thread().name.startswith("webhook") else None

    def step(self, _: FrameType, event: str, __: Any) -> Any:
        if event == "line":
            self.seen += 1
            if self.seen == self.line:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.step


def main(home: str, line: int) -> None:
    death = Death(line)
    threading.settrace(death.trace)
    environ = {"AGENTCTL_HOME": home}
    courier = Courier(home, environ, [Hasty(environ)])
    courier.start()

    def settled() -> bool:
        rows = outbox.listed(f"{home}/state.db", "webhook", all_of_them=True)
        return all(row.state == "delivered" for row, _ in rows)

    until(settled, "all is delivered")
    courier.stop()
    print(death.seen)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
