"""The daemon as a service of the login: a systemd user unit, or a launchd agent.

Of the usual hardening only what leaves the view of the machine alone: PrivateTmp, ProtectHome or
ProtectSystem make a mount namespace, in which the daemon would see other files than its askers do. And
only what people's own commands, which it starts for fuses and notifications, can live with: under
MemoryDenyWriteExecute no Node.js starts, and with a UMask of ours what they make is for no colleague.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from agentctl.errors import UsageError

MARK = "Written by `agentctl daemon install`"
# Where agents keep their files, if a person says so: without them the daemon would look elsewhere.
_CARRIED = (
    "AGENTCTL_HOME", "PATH", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "CODEX_SQLITE_HOME", "OPENCODE_DB",
    "PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "XDG_STATE_HOME",
)  # fmt: skip
_UNIT = """\
# {mark}; `agentctl daemon uninstall` removes it.
[Unit]
Description=agentctl daemon ({home})
# It listens at {socket}

[Service]
Type=notify
ExecStart={command}
{environment}
Restart=on-failure
RestartSec=1
# 4: another daemon runs for this home. To try again would not help.
RestartPreventExitStatus=4
TimeoutStopSec=5
KillMode=process
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK

[Install]
WantedBy=default.target
"""
_PLIST = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- {mark}; `agentctl daemon uninstall` removes it. -->
<plist version="1.0">
<dict>
  <key>Label</key><string>{label}</string>
  <key>ProgramArguments</key>
  <array>
{words}
  </array>
  <key>EnvironmentVariables</key>
  <dict>
{environment}
  </dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>ThrottleInterval</key><integer>10</integer>
  <key>StandardErrorPath</key><string>{log}</string>
</dict>
</plist>
"""


def carried(environ: Mapping[str, str], home: str, *, usual: bool) -> dict[str, str]:
    """What the service is told of the environment that it is installed from. `usual`: the home is where
    it would look anyway."""
    kept = {name: environ[name] for name in _CARRIED if environ.get(name)}
    kept.pop("AGENTCTL_HOME", None)
    return kept if usual else {"AGENTCTL_HOME": home, **kept}


def name(home: str, *, usual: bool) -> str:
    """One service for each home: another home's name tells which, and is its own."""
    if usual:
        return "agentctl"
    word = re.sub(r"[^A-Za-z0-9]+", "-", os.path.basename(home)).strip("-")[:40]
    return f"agentctl-{word or 'home'}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:8]}"


def unit(home: str, command: Sequence[str], environ: Mapping[str, str]) -> str:
    """A systemd user unit. Raises UsageError for what no line can hold."""
    settings = "\n".join(
        f"Environment={_quoted(f'{name}={value}', dollars=False)}" for name, value in environ.items()
    )
    return _UNIT.format(
        mark=MARK,
        home=_plain(home),
        socket=_plain(f"{home}/daemon.sock"),
        command=" ".join(_quoted(word) for word in command),
        environment=settings,
    )


def plist(label: str, home: str, command: Sequence[str], environ: Mapping[str, str]) -> str:
    """A launchd agent. Made and tested on Linux; not tried on a Mac."""
    words = "\n".join(f"    <string>{_xml(word)}</string>" for word in command)
    settings = "\n".join(
        f"    <key>{_xml(name)}</key><string>{_xml(value)}</string>" for name, value in environ.items()
    )
    return _PLIST.format(
        mark=MARK,
        label=_xml(label),
        words=words,
        environment=settings,
        log=_xml(f"{home}/daemon.err"),
    )


def _quoted(word: str, *, dollars: bool = True) -> str:
    """As systemd reads it back. `%` begins a specifier everywhere, `$` a variable in commands only."""
    _checked(word)
    told = word.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("%", "%%")
    return f'"{told.replace("$", "$$") if dollars else told}"'


def _plain(word: str) -> str:
    """In a description or a comment."""
    return _checked(word).replace("%", "%%").rstrip("\\")


def _xml(word: str) -> str:
    return escape(_checked(word))


def _checked(word: str) -> str:
    """A line that ends inside a word would begin a setting of its own; bytes that are no text cannot be
    written."""
    printable = all(c == "\t" or (c >= " " and not "\x7f" <= c <= "\x9f") for c in word)
    if not printable or any("\ud800" <= c <= "\udfff" for c in word):
        raise UsageError(f"no service can be told this: {word!r}", "choose another directory")
    return word
