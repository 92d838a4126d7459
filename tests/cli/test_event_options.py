"""From words to a filter."""

import argparse

from agentctl.cli.event_options import add_filters, filter_of
from agentctl.watch.filter import EventFilter


def test_each_option_has_its_place() -> None:
    parser = argparse.ArgumentParser()
    add_filters(parser)
    words = ["--adapter", "pi", "--adapter", "codex", "--type", "lock", "--group", "g"]
    wanted = filter_of(parser.parse_args(words), "4f")
    assert wanted == EventFilter(["lock.*"], ["pi", "codex"], "g", "4f")
    assert filter_of(parser.parse_args([])) == EventFilter([], [], None, None)
