"""Property tests find the same examples on every machine, and none is too slow on a loaded one."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
