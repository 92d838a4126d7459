"""Property tests find the same examples on every machine, and none is too slow on a loaded one."""

from hypothesis import settings

settings.register_profile("repeatable", max_examples=400, derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
