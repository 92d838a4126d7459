"""What a process runs, behind interpreters, emulators, loaders and other names."""

import pytest

from agentctl.system.program import may_be_named, plain_name, resolve_program


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/usr/bin/codex", "codex"),
        ("/usr/bin/codex (deleted)", "codex"),
        ("/nix/store/x/bin/.claude-wrapped", "claude"),
        (".opencode-wrapp", "opencode"),  # 15 characters are all that the table shows
        ("claude-unwrapped", "claude"),
        ("codex-x86_64-unknown-linux-musl", "codex-x86_64-unknown-linux-musl"),
        ("codex-w", "codex-w"),  # not cut: it does not begin with a dot
        ("node", "node"),
        ("", ""),
    ],
)
def test_the_plain_name_of_a_path(path: str, name: str) -> None:
    assert plain_name(path) == name


@pytest.mark.parametrize(
    ("binary", "argv", "path", "arguments", "runtime"),
    [
        ("/opt/codex", ("codex", "exec", "hi"), "/opt/codex", ("exec", "hi"), ""),
        ("/usr/bin/node", ("node", "/bin/pi", "-p"), "/bin/pi", ("-p",), "node"),
        ("/usr/bin/node", ("node", "-r", "x.js", "--inspect", "cli.js", "a"), "cli.js", ("a",), "node"),
        ("/usr/bin/bun", ("bun", "run", "cli.js"), "cli.js", (), "bun"),
        ("/usr/bin/deno", ("deno", "run", "-A", "cli.ts"), "cli.ts", (), "deno"),
        ("/usr/bin/qemu-x86_64", ("qemu", "/opt/claude", "-p"), "/opt/claude", ("-p",), "qemu-x86_64"),
        ("/run/rosetta/rosetta", ("rosetta", "/opt/claude"), "/opt/claude", (), "rosetta"),
        (
            "/lib64/ld-linux-x86-64.so.2",
            ("ld", "--library-path", "/lib", "--argv0", "claude", "/opt/claude", "-p", "x"),
            "/opt/claude",
            ("-p", "x"),
            "ld-linux-x86-64.so.2",
        ),
        # an emulator that runs a loader that runs an interpreter
        ("/usr/bin/qemu-arm", ("q", "/lib/ld-musl-arm.so.1", "/bin/node", "pi"), "pi", (), "node"),
        ("/usr/bin/node", ("node",), "", (), "node"),
        ("/usr/bin/node", ("pi",), "", (), "node"),  # it has overwritten its arguments
    ],
)  # fmt: skip
def test_the_program_behind_a_runtime_is_resolved(
    binary: str, argv: tuple[str, ...], path: str, arguments: tuple[str, ...], runtime: str
) -> None:
    assert resolve_program(binary, argv) == (path, arguments, runtime)


@pytest.mark.parametrize(
    ("comm", "names", "fits"),
    [
        ("codex", {"codex"}, True),
        (".codex-wrapped", {"codex"}, True),
        ("codex-x86_64-un", {"codex", "codex-#"}, True),
        ("codex-x86_64-un", {"codex"}, False),
        ("2.1.325", {"claude", "#.#.#"}, True),
        ("2.1", {"claude", "#.#.#"}, False),
        ("2.1.325", {"claude"}, False),
        ("qemu-x86_64", {"qemu-#"}, True),
        ("", {"codex", "codex-#"}, False),
        ("bash", {"codex", "codex-#", "#.#.#"}, False),
    ],
)
def test_a_process_name_fits_the_names(comm: str, names: set[str], fits: bool) -> None:
    assert may_be_named(comm, frozenset(names)) is fits
