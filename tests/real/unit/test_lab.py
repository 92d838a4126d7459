"""What a lab keeps of an agent's output, for a play that breaks off."""

from pathlib import Path

from tests.real.lab import LAST_OUTPUT, read_output


def test_the_output_of_an_agent_is_read_from_its_end(tmp_path: Path) -> None:
    (tmp_path / "err0").write_text("at first\n" * LAST_OUTPUT + "database is locked\n")
    (tmp_path / "out0").write_text("")
    (tmp_path / "out1").write_bytes(b"\xff done\n\n")
    output = read_output(tmp_path)
    assert output.endswith("database is locked\n== out1\n\N{REPLACEMENT CHARACTER} done\n")
    assert output.startswith("== err0\n")
    assert "out0" not in output
    assert len(output) < 2 * LAST_OUTPUT
