"""Every verb with its summary. `--help` needs only this table and imports no verb."""

VERBS = {
    "list": "list sessions, those that wait for you first (the default)",
    "status": "show all facts of one session",
    "why": "show the evidence behind a status",
    "peek": "show the last messages of a session",
    "logs": "show all messages of a session, and follow it",
    "launch": "start an agent, or several side by side",
    "resume": "continue a session that has ended",
    "stop": "stop sessions and all their processes, with proof",
    "wait": "wait until sessions have ended, are idle, or wait for you",
    "events": "show what happens, as it happens",
    "history": "show what happened, and the evidence for it",
    "compare": "compare the slots of a group: outcome, cost, changes",
    "worktree": "list or remove the worktrees of launches",
    "lock": "keep launches out of a directory",
    "locks": "show the locked directories (short for lock list)",
    "unlock": "release a locked directory (short for lock release)",
    "fuse": "stop sessions or run a command at a set time",
    "prune": "delete what is stored about launches that ended long ago",
    "daemon": "start, stop and show the daemon",
    "notify": "show and test notifications",
    "webhook": "show, test and retry webhooks",
    "metrics": "print metrics for Prometheus",
    "config": "show every setting and where it is set",
    "doctor": "check what agentctl can see on this machine",
    "demo": "see agentctl at work on demo agents, in a temporary home",
    "completion": "print a completion script for bash, zsh or fish",
    "help": "show the help of a verb",
}

# Verbs that stand for a command of another verb.
ALIASES = {"locks": ("lock", "list"), "unlock": ("lock", "release")}

EXAMPLES = (
    ("agentctl", "every live session on this machine"),
    ("agentctl list -a --since 7d", "also those that ended this week"),
    ("agentctl list --status waiting", "only those that wait for you"),
    ("agentctl why 4f2a", "the evidence (any unique prefix of an id)"),
    ("agentctl logs -f 4f2a", "follow a session until it ends"),
    ('agentctl launch codex -p "…"', "start an agent on a task, print its id"),
    ("agentctl stop 4f2a", "stop a session, with proof"),
    ("agentctl compare fix", "the slots of the group fix, side by side"),
    ("agentctl list --json | jq .", "for scripts: the JSON is stable"),
)

EXIT_CODES = (
    (0, "success"),
    (1, "failure"),
    (2, "wrong usage"),
    (3, "not found, or ambiguous"),
    (4, "refused"),
    (5, "unknown or unreachable"),
    (69, "an extra is not installed"),
    (124, "timed out (wait)"),
    (130, "interrupted by Ctrl-C"),
)


def help_text() -> str:
    verbs = "\n".join(f"  {name:<11} {summary}" for name, summary in VERBS.items())
    examples = "\n".join(f"  {command:<32} {note}" for command, note in EXAMPLES)
    return (
        "usage: agentctl [VERB] [OPTIONS]\n\n"
        "One control plane for coding agents. A status is computed from the kernel and\n"
        "the agents' own files at the moment you ask; `why` shows the evidence.\n\n"
        f"verbs:\n{verbs}\n\nexamples:\n{examples}\n\n"
        "`agentctl help VERB` shows the options of a verb. AGENTCTL_HOME is where\n"
        "agentctl keeps its own files. NO_COLOR=1: no colour. AGENTCTL_DEBUG=1: show\n"
        "tracebacks.\n"
    )
