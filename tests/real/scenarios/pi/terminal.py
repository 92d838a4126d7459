"""Pi at its terminal: at its prompt, asking, interrupted, trying again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.waiting import until

if TYPE_CHECKING:
    from tests.real.lab import Lab

NO_FILE = "before its first prompt Pi writes nothing, and with --no-session it never does"
DIALOG = "a dialog of Pi or of an extension leaves no trace outside the terminal"
TRYING = "that a retry goes on is written as that it was cancelled: not at all"

# A tool that asks the person, as extensions have them.
ASKING = """
export default function (pi) {
  pi.registerTool({
    name: "ask", label: "ask", description: "ask the person",
    parameters: { type: "object", properties: {} },
    async execute(id, given, signal, update, ctx) {
      const said = await ctx.ui.select("Which shed?", ["the red one", "the blue one"]);
      return { content: [{ type: "text", text: String(said) }], details: {} };
    },
  });
}
"""


def start(lab: Lab) -> None:
    """Nothing but the prompt on the screen; before it, maybe, whether to trust the directory."""
    lab.tui().is_now("idle", blind=NO_FILE)
    project = lab.repository(lab.root / "project")
    skill = project / ".pi" / "skills" / "paint" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: paint\ndescription: paints sheds\n---\nPaint it.\n")
    actor = lab.tui(cwd=project, ready="Trust project folder?")
    actor.is_now("waiting", waiting_for="startup", blind=DIALOG)
    actor.answers("Trust project folder?", "Enter")
    actor.is_now("idle", since=actor.sees("fake-1"), blind=NO_FILE)


def idle(lab: Lab) -> None:
    """After a turn, and after another one; not while a command runs that the person has typed."""
    actor = lab.tui()
    for _ in range(2):
        actor.says("[[gate=%]] hello")
        actor.plays_out()
    errand = lab.errand()
    actor.unsettled()
    actor.terminal.type(f"!{errand.command}")
    actor.terminal.press("Enter")
    actor.is_now("running", since=errand.has_begun())
    actor.unsettled()
    errand.finish()
    actor.is_now("idle")


def question_asked(lab: Lab) -> None:
    """Only an extension asks."""
    extension = lab.root / "ask.js"
    extension.write_text(ASKING)
    actor = lab.tui("-e", str(extension))
    actor.says("[[call=ask:{}]] [[gate=%]] paint")
    actor.is_now("waiting", since=actor.sees("Which shed?"), waiting_for="question", blind=DIALOG)
    actor.answers("Which shed?", "Enter")
    actor.plays_out()


def interrupted(lab: Lab) -> None:
    """Ctrl-C clears what is typed, and twice ends Pi; Esc ends the turn."""
    actor = lab.tui()
    actor.says("[[gate=%]] count")
    actor.is_held()
    actor.presses("C-c")
    actor.is_now("running")
    actor.presses("Escape")
    actor.is_now("idle", since=actor.heard("left").at)
    actor.says("[[gate=%]] once more")
    actor.is_held()
    actor.presses("C-c", "C-c")
    actor.is_gone(outcome="killed")


def api_error(lab: Lab) -> None:
    """At its terminal first: before its first prompt what ends beside it would be unknown."""
    actor = lab.tui()
    actor.says("[[error=400]] hello")
    actor.is_now("idle", since=actor.heard("refused").at)
    lab.headless("[[error=400]] hello").is_gone(outcome="failed")


def retry(lab: Lab) -> None:
    """Every try that fails is written down; so is the plan to try again, and not its cancelling."""
    actor = lab.tui()
    actor.says("[[error=500x2]] [[gate=%]] hello")
    actor.is_now("running", since=actor.heard("refused").at, blind=TRYING)
    actor.is_held(blind=TRYING)
    actor.opens()
    actor.has_answer()
    actor.says("[[error=500]] hello")
    actor.is_now("running", since=actor.heard("refused").at, blind=TRYING)
    actor.terminal.shows("Retrying")
    actor.presses("Escape")
    until(lambda: "Retrying" not in actor.terminal.screen(), "it gives up")
    actor.is_now("idle", blind=TRYING)
    actor.says("[[gate=%]] hello")
    actor.plays_out()
