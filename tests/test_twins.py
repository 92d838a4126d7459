"""Every module has its tests, every test file its module: `src/agentctl/x/y.py`, `tests/x/test_y.py`."""

from pathlib import Path

import agentctl

SOURCE = Path(agentctl.__file__).parent
TESTS = Path(__file__).parent

# Modules without a twin, and why that is right.
ALONE = {
    "adapters/base.py": "a protocol: nothing in it runs",
    "adapters/claude_code/adapter.py": "the adapter itself: adapters/test_claude_code.py",
    "adapters/claude_code/agent.py": "constants: tested in adapters/test_registry.py",
    "adapters/codex/adapter.py": "the adapter itself: adapters/test_codex.py",
    "adapters/codex/agent.py": "constants: tested in adapters/test_registry.py",
    "adapters/demo/adapter.py": "the adapter itself: adapters/test_demo.py",
    "adapters/demo/agent.py": "constants: tested in adapters/test_registry.py",
    "adapters/opencode/adapter.py": "the adapter itself: adapters/test_opencode.py",
    "adapters/opencode/agent.py": "constants: tested in adapters/test_registry.py",
    "adapters/pi/adapter.py": "the adapter itself: adapters/test_pi.py",
    "adapters/pi/agent.py": "constants: tested in adapters/test_registry.py",
    "adapters/claude_code/argv.py": "a part of adapters/claude_code/, tested through it",
    "adapters/claude_code/places.py": "a part of adapters/claude_code/, tested through it",
    "adapters/claude_code/pid_record.py": "a part of adapters/claude_code/, tested through it",
    "adapters/claude_code/transcript.py": "a part of adapters/claude_code/, tested through it",
    "adapters/claude_code/lines.py": "a part of adapters/claude_code/, tested through it",
    "adapters/codex/argv.py": "a part of adapters/codex/, tested through it",
    "adapters/codex/approval.py": "a part of adapters/codex/, tested through it",
    "adapters/codex/open_files.py": "a part of adapters/codex/, tested through it",
    "adapters/codex/places.py": "a part of adapters/codex/, tested through it",
    "adapters/codex/lines.py": "a part of adapters/codex/, tested through it",
    "adapters/codex/rollout.py": "a part of adapters/codex/, tested through it",
    "adapters/opencode/argv.py": "a part of adapters/opencode/, tested through it",
    "adapters/opencode/db.py": "a part of adapters/opencode/, tested through it",
    "adapters/opencode/history.py": "a part of adapters/opencode/, tested through it",
    "adapters/opencode/legacy_json.py": "a part of adapters/opencode/, tested through it",
    "adapters/opencode/binding.py": "a part of adapters/opencode/, tested through it and its log",
    "adapters/opencode/messages.py": "a part of adapters/opencode/, tested through it",
    "adapters/opencode/places.py": "a part of adapters/opencode/, tested through it",
    "adapters/pi/beside.py": "a part of adapters/pi/, tested through it",
    "adapters/pi/binding.py": "a part of adapters/pi/, tested through it",
    "adapters/pi/header_time.py": "a part of adapters/pi/, tested through it",
    "adapters/pi/places.py": "a part of adapters/pi/, tested through it",
    "adapters/pi/transcript.py": "a part of adapters/pi/, tested through it",
    "adapters/plans.py": "values; which words are passed on is tested with each adapter",
    "control/expire.py": "another name of fuses/expire.py, tested in launch/test_previous_shims.py",
    "control/finish.py": "another name of launch/finish.py, tested in launch/test_previous_shims.py",
    "launch/spec.py": "values without behaviour",
    "rehearsal/acts.py": "played with a fake in cli/verbs/test_doctor.py, with real ones in tests/real",
    "rehearsal/expected/claude_code.py": "values: tested in rehearsal/test_signals.py and tests/real",
    "rehearsal/expected/codex.py": "values: tested in rehearsal/test_signals.py and tests/real",
    "rehearsal/expected/opencode.py": "values: tested in rehearsal/test_signals.py and tests/real",
    "rehearsal/expected/pi.py": "values: tested in rehearsal/test_signals.py and tests/real",
    "rehearsal/recipes/claude_code.py": "values: tested in rehearsal/test_recipe.py, met by tests/real",
    "rehearsal/recipes/codex.py": "values: tested in rehearsal/test_recipe.py, played by tests/real",
    "rehearsal/recipes/opencode.py": "values: tested in rehearsal/test_recipe.py, played by tests/real",
    "rehearsal/recipes/pi.py": "values: tested in rehearsal/test_recipe.py, played by tests/real",
    "testing/contract.py": "is a test suite itself: every adapter's tests run it",
    "testing/player.py": "is the program of the fake agents: every adapter's tests run it",
    "testing/puppet.py": "drives the fake agents: every adapter's tests use it",
    "testing/stage.py": "the fake agents' home: every adapter's tests use it",
    "wire/worktree.py": "one table and its object: tested in wire/test_tables.py",
}
# Places where tests are about no single module.
ABOUT_THE_WHOLE = ("law/", "bench/", "real/", "soak/", "pythons/", "user/")
# Test files about no single module, and why.
WITHOUT_MODULE = {
    "launch/test_previous_shims.py": "about what control/ is kept for",
    "wire/test_tables.py": "about the tables of all wire modules",
    "test_budgets.py": "about what all the hot verbs import together",
    "test_imports.py": "about who may import whom",
    "test_linux.py": "about where Linux is called",
    "test_names.py": "about the names of everything",
    "test_docs.py": "about the pages in docs/",
    "test_twins.py": "about all modules",
}


def _modules() -> set[str]:
    """An adapter of several files is one package, `adapters/x/`, with one test, like `adapters/x.py`."""
    modules = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")}
    packages = {path.replace("/__init__.py", ".py") for path in modules if path.startswith("adapters/")}
    return {path for path in modules | packages if not path.endswith("__init__.py")} - {"adapters.py"}


def _twin_of(module: str) -> str:
    """A part of an adapter that has tests of its own has them beside those of the whole:
    `adapters/x/start.py`, `adapters/test_x_start.py`."""
    top, _, part = module.removeprefix("adapters/").partition("/")
    if part and module.startswith("adapters/"):
        return f"adapters/test_{top}_{part}"
    directory, slash, name = module.rpartition("/")
    return f"{directory}{slash}test_{name.removeprefix('__').replace('__.py', '.py')}"


def _test_files() -> set[str]:
    files = (str(path.relative_to(TESTS)) for path in TESTS.rglob("test_*.py"))
    return {path for path in files if not path.startswith(ABOUT_THE_WHOLE)}


def test_the_rule() -> None:
    assert _twin_of("cli/verbs/list.py") == "cli/verbs/test_list.py"
    assert _twin_of("__main__.py") == "test_main.py"
    assert _twin_of("adapters/pi.py") == "adapters/test_pi.py"
    assert _twin_of("adapters/pi/start.py") == "adapters/test_pi_start.py"


def test_every_module_has_its_tests() -> None:
    tests = _test_files()
    alone = {module for module in _modules() if _twin_of(module) not in tests}
    assert alone - ALONE.keys() == set(), "write its tests, or say above why it has none"


def test_every_test_file_has_its_module() -> None:
    twins = {_twin_of(module) for module in _modules()}
    assert _test_files() - twins - WITHOUT_MODULE.keys() == set(), "misnamed, or its module is gone"


def test_no_exception_is_stale() -> None:
    """An exception that is none any more would hide the next one."""
    tests, modules = _test_files(), _modules()
    assert {module for module in ALONE if module not in modules or _twin_of(module) in tests} == set()
    twins = {_twin_of(module) for module in modules}
    assert {test for test in WITHOUT_MODULE if test not in tests or test in twins} == set()
