"""The server as a program, for people."""

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

WORDS = [sys.executable, "-m", "tests.real.model_server"]


def test_the_help_teaches_the_directives() -> None:
    text = subprocess.run([*WORDS, "--help"], capture_output=True, text=True, check=True).stdout
    assert "[[gate=NAME]]" in text
    assert "standard input" in text


def test_it_prints_its_url_opens_gates_and_writes_its_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    with subprocess.Popen(
        [*WORDS, "--journal", str(journal)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin
        assert server.stdout
        url = server.stdout.readline().removeprefix("listening on ").strip()
        server.stdin.write("early\n")
        server.stdin.flush()
        tools = [{"type": "function", "function": {"name": "bash"}}]
        messages = [{"role": "user", "content": "[[gate=early]][[say=done]]"}]
        body = json.dumps({"model": "m", "tools": tools, "messages": messages}).encode()
        with urllib.request.urlopen(f"{url}/v1/chat/completions", body, timeout=20) as answer:
            assert b"done" in answer.read()
        lines = [server.stdout.readline() for _ in range(4)]
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
    kinds = [json.loads(line)["kind"] for line in journal.read_text().splitlines()]
    assert kinds == ["asked", "held", "began", "answered"]
    assert all(kind in line for kind, line in zip(kinds, lines, strict=True))
