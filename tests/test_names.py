"""Plain names and words: docs/glossary.md lists those to use, this keeps the worst out."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import agentctl

SOURCE = Path(agentctl.__file__).parent
TESTS = Path(__file__).parent
REPOSITORY = TESTS.parent
# Bare participles: they say that something happened, and not what the value is or what a function does.
PARTICIPLES = {
    "asked", "done", "ended", "found", "given", "gone", "got", "held", "kept", "known", "left", "made",
    "meant", "named", "said", "seen", "shown", "taken", "told", "wanted", "written",
}  # fmt: skip
# Words of which a reader must guess the subject.
OLD_WORDS = re.compile(
    r"\b([Nn]obody|[Ww]hoever|[Ss]omebody|anew|(?:is|are) told(?! apart)|burns?|deeds?)\b"
)
# Modules of one name in several packages, where the package says which one it is.
SHARED_NAMES = {
    "__init__", "__main__",
    "adapter", "agent", "argv", "binding", "lines", "places", "start", "transcript",  # of each agent
    "claude_code", "codex", "opencode", "pi",  # the recipe of each agent, and what is expected of it
}  # fmt: skip


def sources() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def programs() -> list[Path]:
    return [*sources(), *sorted(TESTS.rglob("*.py"))]


def pages() -> list[Path]:
    """The written pages; docs/accuracy.md and docs/scenarios.md are printed by the lab."""
    paths = set(REPOSITORY.glob("*.md")) | set(REPOSITORY.glob("docs/**/*.md"))
    return sorted(paths - {REPOSITORY / "docs" / name for name in ("accuracy.md", "scenarios.md")})


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names of functions, parameters and variables, each with its line. Fields of a class are
    left out: some are keys of the public JSON."""
    fields = {
        id(field.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if id(node) in fields:
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name.strip("_"), node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg.strip("_"), node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id.strip("_"), node.lineno


def test_no_name_is_a_bare_participle() -> None:
    names = [
        f"{path}:{line}: {name}"
        for path in programs()
        for name, line in bound_names(ast.parse(path.read_text("utf-8")))
        if name in PARTICIPLES
    ]
    assert names == []


def test_a_participle_is_recognised() -> None:
    tree = ast.parse("def told(given): _found = 1")
    assert {name for name, _ in bound_names(tree)} == {"told", "given", "found"}


def test_every_sentence_names_its_subject() -> None:
    lines = [
        f"{path}:{number}: {line.strip()}"
        for path in (*programs(), *pages())
        if path not in (Path(__file__), TESTS / "real" / "accuracy" / "report.py")  # prints accuracy.md
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if OLD_WORDS.search(line)
    ]
    assert lines == []


# Why a name that occurs in several packages is right in each.
REASONS = {
    "db": "the database of OpenCode, and our own",
    "event": "the value, and its JSON",
    "expire": "control/ forwards to fuses/ for one release",
    "finish": "control/ forwards to launch/ for one release",
    "http": "the daemon serves HTTP, deliveries are sent by it",
    "journal": "our journal, and the scripted model's",
    "launches": "the table, and what a look makes of the notes",
    "log": "the log file of OpenCode, the daemon's as it writes it, and as a user reads it",
    "manage": "what a user does to fuses, and to deliveries",
    "messages": "of a session: as OpenCode stores them, as values, as text",
    "plan": "of a launch, and of a stop",
    "program": "the program to start, and the program that a process runs",
    "run": "a fuse runs a command, a rehearsal runs an agent",
    "server": "the daemon's, and the scripted model's",
    "session": "the wire session, and its text",
}


def test_two_modules_share_a_name_only_for_a_reason() -> None:
    """Verbs and packages may share a name with the modules that do their work: `fuses/stop`."""
    verbs = {path.stem for path in (SOURCE / "cli" / "verbs").glob("*.py")}
    packages = {path.parent.name for path in SOURCE.rglob("__init__.py")}
    names = Counter(path.stem for path in sources())
    shared = {name for name, count in names.items() if count > 1} - SHARED_NAMES - verbs - packages
    assert shared == set(REASONS), "rename one, or say above why both are the right word"
