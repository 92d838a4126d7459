"""Property tests find the same examples on every machine, and none is too slow on a loaded one. Signals
mean what they mean at a terminal: a shell's background job ignores Ctrl-C, one of nohup a hang-up, and
whatever they start would do the same."""

import signal

from hypothesis import settings

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

settings.register_profile("repeatable", max_examples=400, derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
