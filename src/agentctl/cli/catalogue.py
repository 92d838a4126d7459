"""Every verb in one line. A table, so that `--help` need not import a single verb."""

VERBS = {
    "list": "who needs you, who works, who rests (the default)",
    "status": "all facts of one session",
    "why": "the evidence behind a status",
    "peek": "the last things said in a session",
    "logs": "what was said in a session, and what comes next",
    "launch": "start an agent, or several side by side",
    "resume": "go on with an ended session",
    "stop": "end sessions and all they left behind, with a proof",
    "wait": "until sessions have ended, rest, or need you",
    "events": "what happens, as it happens",
    "history": "what changed when, and why we thought so",
    "compare": "the slots of a group: outcome, cost, changes, conflicts",
    "worktree": "the worktrees that launches made; remove what is done with",
    "lock": "keep launches out of a directory; what is locked",
    "locks": "what is locked (short for lock list)",
    "unlock": "release a directory (short for lock release)",
    "fuse": "stop, run or tell something after a while",
    "prune": "forget launches that ended long ago, and what crashes left",
    "daemon": "start, stop and see what works while nobody looks",
    "notify": "who is told that an agent waits or has ended; try it",
    "webhook": "who is told of events over HTTP, and what was not delivered",
    "metrics": "what there is to measure, as Prometheus reads it",
    "config": "every setting, and where it came from",
    "doctor": "what agentctl can see here, and what it cannot",
    "demo": "see it work on built-in demo agents, in a temporary home",
    "completion": "completion for bash, zsh or fish",
    "help": "help on a verb",
}

EXAMPLES = (
    ("agentctl", "every live session on this machine"),
    ("agentctl list -a --since 7d", "and those that ended this week"),
    ("agentctl list --status waiting", "only those that wait for you"),
    ("agentctl why 4f2a", "how we know (any unambiguous prefix of an id)"),
    ("agentctl logs -f 4f2a", "follow one until it ends"),
    ('agentctl launch codex -p "…"', "start an agent on a task, print its id"),
    ("agentctl stop 4f2a", "end one, with a proof"),
    ("agentctl compare fix", "the slots of the group fix, side by side"),
    ("agentctl list --json | jq .", "for scripts; the shape is stable"),
)

EXIT_CODES = (
    (0, "done"),
    (1, "it failed"),
    (2, "usage"),
    (3, "not found, or ambiguous"),
    (4, "refused"),
    (5, "unknown or unreachable"),
    (69, "an extra is not installed"),
    (124, "not within the time given (wait)"),
    (130, "interrupted by Ctrl-C"),
)


def help_text() -> str:
    verbs = "\n".join(f"  {name:<11} {summary}" for name, summary in VERBS.items())
    examples = "\n".join(f"  {command:<32} {what}" for command, what in EXAMPLES)
    return (
        "usage: agentctl [VERB] [OPTIONS]\n\n"
        "One control plane for coding agents. A status is computed from the kernel and\n"
        "the agents' own files at the moment you ask; `why` shows the evidence.\n\n"
        f"verbs:\n{verbs}\n\nexamples:\n{examples}\n\n"
        "`agentctl help VERB` tells the rest. AGENTCTL_HOME moves our own files, NO_COLOR\n"
        "stops colour, AGENTCTL_DEBUG=1 shows tracebacks.\n"
    )
