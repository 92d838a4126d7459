"""Run a deliverer that kills itself before the Nth line of ours of a delivery: `dying.py HOME N`. With 0
it lives, and prints how many lines ran until all was delivered."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

import agentctl
from agentctl.daemon.parts.deliverer import Deliverer
from agentctl.deliver.policy import Policy
from agentctl.deliver.webhook import WebhookSender
from agentctl.state import outbox
from tests.waiting import until

OURS = os.path.dirname(agentctl.__file__)


class Hasty(WebhookSender):
    policy = Policy(first=0.01, most=0.02)


class Death:
    def __init__(self, line: int) -> None:
        self.line = line
        self.lines = 0

    def trace(self, frame: FrameType, _: str, __: Any) -> Any:
        """Trace the threads that deliver, in our own files."""
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        return self.step if threading.current_thread().name.startswith("webhook") else None

    def step(self, _: FrameType, event: str, __: Any) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines == self.line:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.step


def main(home: str, line: int) -> None:
    death = Death(line)
    threading.settrace(death.trace)
    environ = {"AGENTCTL_HOME": home}
    courier = Deliverer(home, environ, [Hasty(environ)])
    courier.start()

    def is_all_delivered() -> bool:
        rows = outbox.list_deliveries(f"{home}/state.db", "webhook", all_of_them=True)
        return all(row.state == "delivered" for row, _ in rows)

    until(is_all_delivered, "all is delivered")
    courier.stop()
    print(death.lines)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
