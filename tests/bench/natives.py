"""Finished sessions as the four agents leave them on disk, built from a plan and from bulk text.

Only as true to the formats as a measurement needs: the lines a reader looks for, of their real size
and at their real place, between the bookkeeping that makes the files large.
"""

# ruff: noqa: E501 - lines as the agents write them
from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

from agentctl.system.clock import format_rfc3339

TEXT = (
    "the test fails because reading a torn line returns None; fix it: def parse(raw: bytes) -> dict: "
    'return json.loads(raw)  # "quoted" \\ escaped\n\tif not line.endswith("\\n"): torn += 1\n'
    "café naïve → done ✓ src/module/file.py:120: error: incompatible types in assignment\n"
)
BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Plan(NamedTuple):
    """One session, before it is written in its agent's own format."""

    agent: str
    id: str
    cwd: str
    prompt: str
    started_at: float
    ended_at: float
    turns: int
    ending: str  # completed, failed, interrupted, killed

    def moment(self, turn: int) -> float:
        """Return when that turn began; for `turns`, the end of the last."""
        return self.started_at + (self.ended_at - self.started_at) * turn / self.turns


class Bulk:
    """Text already escaped for JSON, in pieces of several sizes: made once, used everywhere."""

    def __init__(self, seed: str) -> None:
        rng = random.Random(seed)
        self._pieces = [_escaped(rng, rng.randrange(200, 4000)) for _ in range(64)]
        self.instructions = _escaped(rng, 20_000)
        self.snapshot = _escaped(rng, 36_000)
        self.shape = _escaped(rng, 36_000)
        self.listing = _escaped(rng, 5_000)

    def piece(self, rng: random.Random) -> str:
        return rng.choice(self._pieces)


def _escaped(rng: random.Random, size: int) -> str:
    choices = TEXT.split(" ")
    words: list[str] = []
    length = 0
    while length < size:
        word = rng.choice(choices)
        words.append(word)
        length += len(word) + 1
    return json.dumps(" ".join(words), ensure_ascii=False)[1:-1]


def line(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


# ids


def random_uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def timed_uuid(rng: random.Random, at: float) -> str:
    value = int(at * 1000) << 80 | 7 << 76 | rng.getrandbits(12) << 64 | 2 << 62 | rng.getrandbits(62)
    return str(uuid.UUID(int=value))


def opencode_id(prefix: str, rng: random.Random, at: float) -> str:
    """12 hex of (low 36 bits of the ms) and a counter, inverted for sessions; 14 of base 62."""
    value = (int(at * 1000) & (1 << 36) - 1) << 12 | rng.getrandbits(8)
    if prefix == "ses":
        value = ~value & (1 << 48) - 1
    return f"{prefix}_{value:012x}{''.join(rng.choices(BASE62, k=14))}"


# claude code


def claude_slug(cwd: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in cwd)


def claude(plan: Plan, rng: random.Random, bulk: Bulk) -> Iterator[str]:
    if plan.turns > 1 or rng.random() < 0.5:
        entry = "cli"
        yield f'{{"type":"mode","mode":"normal","sessionId":"{plan.id}"}}\n'
        yield f'{{"type":"permission-mode","permissionMode":"default","sessionId":"{plan.id}"}}\n'
    else:
        entry = "sdk-cli"
        yield line(
            {
                "type": "queue-operation",
                "operation": "enqueue",
                "timestamp": format_rfc3339(plan.started_at),
                "sessionId": plan.id,
                "content": plan.prompt,
            }
        )
    for turn in range(plan.turns):
        last = turn == plan.turns - 1
        yield from claude_turn(
            plan, turn, rng, bulk, entry=entry, ending=plan.ending if last else "completed"
        )
    yield line(
        {
            "type": "last-prompt",
            "lastPrompt": plan.prompt,
            "leafUuid": random_uuid(rng),
            "sessionId": plan.id,
        }
    )
    if plan.ending != "killed":
        yield line(_claude_cost(plan))


def claude_turn(
    plan: Plan, turn: int, rng: random.Random, bulk: Bulk, *, entry: str, ending: str
) -> Iterator[str]:
    at = plan.moment(turn)
    common = {
        "timestamp": format_rfc3339(at), "userType": "external", "entrypoint": entry, "cwd": plan.cwd,
        "sessionId": plan.id, "version": "2.1.325", "gitBranch": "main",
    }  # fmt: skip
    tail = json.dumps(common, separators=(",", ":"))[1:]
    prompt = plan.prompt if turn == 0 else "go on"
    source = '"promptSource":"typed","turnOrigin":"human"' if entry == "cli" else '"promptSource":"sdk"'
    parent = random_uuid(rng)
    yield (
        f'{{"parentUuid":null,"isSidechain":false,"promptId":"{random_uuid(rng)}","type":"user",'
        f'"message":{{"role":"user","content":{json.dumps(prompt)}}},"uuid":"{parent}",'
        f'"permissionMode":"default",{source},"turnPosition":{{"promptIndex":{turn},"turnIndex":{turn + 1}}},{tail}\n'
    )
    if turn == 0:
        yield from _claude_bookkeeping(plan, parent, bulk, tail)
    for call in range(rng.randrange(1, 5)):
        yield _claude_request(plan, rng, at)
        used = f"toolu_{rng.getrandbits(96):024x}"
        content = f'{{"type":"tool_use","id":"{used}","name":"Bash","input":{{"command":"make check","description":"{call}"}}}}'
        yield _claude_assistant(rng, content, "tool_use", tail)
        yield (
            f'{{"parentUuid":"{parent}","isSidechain":false,"type":"user","message":{{"role":"user","content":'
            f'[{{"tool_use_id":"{used}","type":"tool_result","content":"{bulk.piece(rng)}","is_error":false}}]}},'
            f'"uuid":"{random_uuid(rng)}","toolUseResult":{{"stdout":"","stderr":"","interrupted":false}},{tail}\n'
        )
        yield (
            f'{{"type":"api-request-blob","sessionId":"{plan.id}","hash":"{rng.getrandbits(256):064x}",'
            f'"message":{{"role":"user","content":"{bulk.piece(rng)}"}}}}\n'
        )
    yield _claude_request(plan, rng, at)
    if ending == "killed":
        return
    if ending == "interrupted":
        text = '[{"type":"text","text":"[Request interrupted by user]"}]'
        yield (
            f'{{"parentUuid":"{parent}","isSidechain":false,"type":"user","message":{{"role":"user",'
            f'"content":{text}}},"uuid":"{random_uuid(rng)}",{tail}\n'
        )
    elif ending == "failed":
        yield (
            f'{{"parentUuid":"{parent}","isSidechain":false,"type":"assistant","message":{{"model":"<synthetic>",'
            f'"role":"assistant","stop_reason":"stop_sequence","content":[{{"type":"text","text":"API Error: 529"}}]}},'
            f'"error":"server_error","isApiErrorMessage":true,"apiErrorStatus":529,"uuid":"{random_uuid(rng)}",{tail}\n'
        )
    else:
        content = f'{{"type":"text","text":"{bulk.piece(rng)}"}}'
        yield _claude_assistant(rng, content, "end_turn", tail)
        if entry == "cli":
            yield (
                f'{{"parentUuid":"{parent}","isSidechain":false,"type":"system","subtype":"turn_duration",'
                f'"durationMs":61000,"messageCount":9,"uuid":"{random_uuid(rng)}","isMeta":false,{tail}\n'
            )


def _claude_bookkeeping(plan: Plan, parent: str, bulk: Bulk, tail: str) -> Iterator[str]:
    for kind in ("deferred_tools_delta", "agent_listing_delta", "skill_listing"):
        yield (
            f'{{"parentUuid":"{parent}","isSidechain":false,"attachment":{{"type":"{kind}","content":"{bulk.listing}"}},'
            f'"type":"attachment","uuid":"{parent}","renderedRole":"system",{tail}\n'
        )
    yield (
        f'{{"parentUuid":"{parent}","isSidechain":false,"attachment":{{"type":"prompt_snapshot",'
        f'"systemPrompt":"{bulk.snapshot}"}},"type":"attachment","uuid":"{parent}",{tail}\n'
    )
    yield (
        f'{{"type":"api-request-shape","sessionId":"{plan.id}","shapeHash":"{"0" * 64}",'
        f'"version":"2.1.325","shape":{{"tools":"{bulk.shape}"}}}}\n'
    )


def _claude_request(plan: Plan, rng: random.Random, at: float) -> str:
    return (
        f'{{"type":"api-request","sessionId":"{plan.id}","id":"{random_uuid(rng)}","timestamp":"{format_rfc3339(at)}",'
        f'"version":"2.1.325","querySource":"repl_main_thread","params":{{"model":"claude-opus-5-5","betas":'
        f'["claude-code-20250219","interleaved-thinking-2025-05-14","effort-2025-11-24"],"max_tokens":128000}},'
        f'"keep":0,"tail":["{rng.getrandbits(256):064x}","{rng.getrandbits(256):064x}"],'
        f'"requestDigest":"{rng.getrandbits(256):064x}"}}\n'
    )


def _claude_assistant(rng: random.Random, content: str, stop: str, tail: str) -> str:
    return (
        f'{{"parentUuid":"{random_uuid(rng)}","isSidechain":false,"message":{{"id":"msg_{rng.getrandbits(96):024x}",'
        f'"type":"message","role":"assistant","model":"claude-opus-5-5","content":[{content}],'
        f'"stop_reason":"{stop}","stop_sequence":null,"usage":{{"input_tokens":11,'
        f'"cache_creation_input_tokens":100,"cache_read_input_tokens":2000,"output_tokens":7,'
        f'"service_tier":"standard"}},"stop_details":null}},"apiBlockIndex":0,"requestedModel":"claude-opus-5-5",'
        f'"type":"assistant","uuid":"{random_uuid(rng)}","effort":"medium","madeBy":"model",{tail}\n'
    )


def _claude_cost(plan: Plan) -> dict[str, Any]:
    usage = {
        "inputTokens": 22, "outputTokens": 14, "cacheReadInputTokens": 4000,
        "cacheCreationInputTokens": 200, "costUSD": 0.0021,
    }  # fmt: skip
    return {
        "type": "cost-state", "sessionId": plan.id, "totalCostUSD": 0.0021, "totalAPIDuration": 76,
        "totalDuration": 480, "startTime": int(plan.started_at * 1000),
        "modelUsage": {"claude-opus-5-5": usage},
    }  # fmt: skip


# codex


def codex(plan: Plan, rng: random.Random, bulk: Bulk) -> Iterator[str]:
    start = format_rfc3339(plan.started_at)
    yield (
        f'{{"timestamp":"{start}","ordinal":0,"type":"session_meta","payload":{{"session_id":"{plan.id}",'
        f'"id":"{plan.id}","timestamp":"{start}","cwd":{json.dumps(plan.cwd)},"originator":"codex_exec",'
        f'"cli_version":"0.166.0","source":"exec","thread_source":"user","model_provider":"openai",'
        f'"base_instructions":{{"text":"{bulk.instructions}","provenance":{{"type":"model","model":"gpt-5"}}}},'
        f'"history_mode":"paginated","git":{{"commit_hash":"{"3e" * 20}","branch":"main"}}}}}}\n'
    )
    for turn in range(plan.turns):
        last = turn == plan.turns - 1
        yield from codex_turn(plan, turn, rng, bulk, plan.ending if last else "completed")


def codex_turn(plan: Plan, turn: int, rng: random.Random, bulk: Bulk, ending: str) -> Iterator[str]:
    at = plan.moment(turn)
    head = f'{{"timestamp":"{format_rfc3339(at)}","ordinal":{turn + 1},"type":'
    turn_id = timed_uuid(rng, at)
    passed = f'"internal_chat_message_metadata_passthrough":{{"turn_id":"{turn_id}"}}'
    total = f'{{"input_tokens":{2009 * (turn + 1)},"cached_input_tokens":200,"output_tokens":20,"total_tokens":2029}}'
    prompt = json.dumps(plan.prompt if turn == 0 else "go on")
    yield f'{head}"event_msg","payload":{{"type":"task_started","turn_id":"{turn_id}","started_at":{int(at)}}}}}\n'
    for role, text in (("developer", bulk.listing), ("user", "<environment_context>")):
        content = f'[{{"type":"input_text","text":"{text}"}}]'
        yield f'{head}"response_item","payload":{{"type":"message","role":"{role}","content":{content},{passed}}}}}\n'
    yield (
        f'{head}"turn_context","payload":{{"turn_id":"{turn_id}","cwd":{json.dumps(plan.cwd)},'
        f'"approval_policy":"never","sandbox_policy":{{"type":"workspace-write"}},"model":"gpt-5","summary":"none"}}}}\n'
    )
    content = f'[{{"type":"input_text","text":{prompt}}}]'
    yield f'{head}"response_item","payload":{{"type":"message","role":"user","content":{content},{passed}}}}}\n'
    content = f'[{{"type":"text","text":{prompt},"text_elements":[]}}]'
    yield _codex_item(
        head, plan, turn_id, f'"type":"UserMessage","id":"{random_uuid(rng)}","content":{content}'
    )
    for _ in range(rng.randrange(1, 6)):
        call = f"call_{rng.getrandbits(32):08x}"
        output = bulk.piece(rng)
        yield (
            f'{head}"response_item","payload":{{"type":"function_call","name":"exec_command",'
            f'"arguments":"{{\\"cmd\\":\\"make check\\"}}","call_id":"{call}",{passed}}}}}\n'
        )
        item = f'"type":"CommandExecution","id":"{call}","status":"completed","aggregated_output":"{output}","exit_code":0'
        yield _codex_item(head, plan, turn_id, item)
        yield (
            f'{head}"response_item","payload":{{"type":"function_call_output","call_id":"{call}",'
            f'"output":"{output}",{passed}}}}}\n'
        )
        yield (
            f'{head}"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{total},'
            f'"last_token_usage":{total},"model_context_window":258400}},"rate_limits":null}}}}\n'
        )
    if ending == "killed":
        return
    if ending == "interrupted":
        yield f'{head}"event_msg","payload":{{"type":"turn_aborted","turn_id":"{turn_id}","reason":"interrupted"}}}}\n'
        return
    answer = bulk.piece(rng)
    content = f'[{{"type":"Text","text":"{answer}"}}]'
    yield _codex_item(
        head, plan, turn_id, f'"type":"AgentMessage","id":"{random_uuid(rng)}","content":{content}'
    )
    error = (
        '"error":{"message":"high demand","codex_error_info":"internal_server_error"},'
        if ending == "failed"
        else ""
    )
    yield (
        f'{head}"event_msg","payload":{{"type":"task_complete","turn_id":"{turn_id}",{error}'
        f'"last_agent_message":"done","completed_at":{int(plan.moment(turn + 1))},"duration_ms":17149}}}}\n'
    )


def _codex_item(head: str, plan: Plan, turn_id: str, item: str) -> str:
    return (
        f'{head}"event_msg","payload":{{"type":"item_completed","thread_id":"{plan.id}","turn_id":"{turn_id}",'
        f'"item":{{{item}}}}}}}\n'
    )


# pi


def pi_slug(cwd: str) -> str:
    return f"--{cwd.lstrip('/').replace('/', '-').replace(':', '-')}--"


def pi(plan: Plan, rng: random.Random, bulk: Bulk) -> Iterator[str]:
    start = format_rfc3339(plan.started_at)
    yield line({"type": "session", "version": 3, "id": plan.id, "timestamp": start, "cwd": plan.cwd})
    first = f"{rng.getrandbits(32):08x}"
    yield line(
        {
            "type": "model_change",
            "id": first,
            "parentId": None,
            "timestamp": start,
            "provider": "openai",
            "modelId": "gpt-5",
        }
    )
    system = f'{{"role":"system","content":"","sections":{{"preamble":"{bulk.listing}"}}}}'
    yield _pi_message(rng, plan.started_at, system)
    for turn in range(plan.turns):
        last = turn == plan.turns - 1
        yield from pi_turn(plan, turn, rng, bulk, plan.ending if last else "completed")


def pi_turn(plan: Plan, turn: int, rng: random.Random, bulk: Bulk, ending: str) -> Iterator[str]:
    at = plan.moment(turn)
    prompt = json.dumps(plan.prompt if turn == 0 else "go on")
    yield _pi_message(
        rng,
        at,
        f'{{"role":"user","content":[{{"type":"text","text":{prompt}}}],"timestamp":{int(at * 1000)}}}',
    )
    for _ in range(rng.randrange(1, 4)):
        call = f"call_{rng.getrandbits(32):08x}"
        content = (
            f'{{"type":"toolCall","id":"{call}","name":"bash","arguments":{{"command":"make check"}}}}'
        )
        yield _pi_message(rng, at, _pi_assistant(content, "toolUse"))
        yield _pi_message(
            rng, at,
            f'{{"role":"toolResult","toolCallId":"{call}","toolName":"bash","content":'
            f'[{{"type":"text","text":"{bulk.piece(rng)}"}}],"isError":false}}',
        )  # fmt: skip
    if ending == "killed":
        return
    stop = {"completed": "stop", "failed": "error", "interrupted": "aborted"}[ending]
    yield _pi_message(rng, at, _pi_assistant(f'{{"type":"text","text":"{bulk.piece(rng)}"}}', stop))


def _pi_assistant(content: str, stop: str) -> str:
    return (
        f'{{"role":"assistant","content":[{content}],"api":"openai-responses","provider":"openai","model":"gpt-5",'
        f'"usage":{{"input":1318,"output":7,"cacheRead":3,"cacheWrite":0,"totalTokens":1328,'
        f'"cost":{{"input":0.0013,"output":0.000014,"cacheRead":0,"cacheWrite":0,"total":0.0013}}}},"stopReason":"{stop}"}}'
    )


def _pi_message(rng: random.Random, at: float, message: str) -> str:
    return (
        f'{{"type":"message","id":"{rng.getrandbits(32):08x}","parentId":"{rng.getrandbits(32):08x}",'
        f'"timestamp":"{format_rfc3339(at)}","message":{message}}}\n'
    )


# opencode: rows instead of lines

Row = tuple[object, ...]


class Rows(NamedTuple):
    session: Row
    messages: list[Row]
    parts: list[Row]


def opencode(plan: Plan, rng: random.Random, bulk: Bulk) -> Rows:
    started_at, ended_at = int(plan.started_at * 1000), int(plan.ended_at * 1000)
    model = '{"id":"fake-1","providerID":"fake","variant":"default"}'
    session = (
        plan.id, "global", "quiet-harbor", plan.cwd, "", plan.prompt[:40], "1.18.33",
        0.0077 * plan.turns, 7676, 7, 3, "build", model, started_at, ended_at,
    )  # fmt: skip
    rows = Rows(session, [], [])
    for turn in range(plan.turns):
        last = turn == plan.turns - 1
        opencode_turn(plan, turn, rng, bulk, rows, ending=plan.ending if last else "completed")
    return rows


def opencode_turn(
    plan: Plan, turn: int, rng: random.Random, bulk: Bulk, into: Rows, *, ending: str
) -> None:
    at = plan.moment(turn)
    ms = int(at * 1000)

    def part(message: str, data: str) -> None:
        into.parts.append((opencode_id("prt", rng, at), message, plan.id, ms, ms, data))

    question = opencode_id("msg", rng, at)
    user = (
        f'{{"role":"user","time":{{"created":{ms}}},"agent":"build",'
        f'"model":{{"providerID":"fake","modelID":"fake-1"}},"summary":{{"diffs":[]}}}}'
    )
    into.messages.append((question, plan.id, ms, ms, user))
    prompt = json.dumps(plan.prompt if turn == 0 else "go on")
    part(question, f'{{"type":"text","text":{prompt}}}')  # compact, as OpenCode writes it
    end = {
        "completed": f'"completed":{ms + 900}}},"finish":"stop"',
        "failed": f'"completed":{ms + 900}}},"error":{{"name":"APIError","data":{{"message":"error 400"}}}}',
        "interrupted": f'"completed":{ms + 900}}},"error":{{"name":"MessageAbortedError","data":{{}}}}',
        "killed": '"x":0}',
    }[ending]
    answer = opencode_id("msg", rng, at + 0.6)
    assistant = (
        f'{{"parentID":"{question}","role":"assistant","mode":"build","agent":"build","path":{{"cwd":{json.dumps(plan.cwd)}}},'
        f'"cost":0.0077,"tokens":{{"total":7686,"input":7676,"output":7,"reasoning":0,"cache":{{"write":0,"read":3}}}},'
        f'"modelID":"fake-1","providerID":"fake","time":{{"created":{ms + 600},{end}}}'
    )
    into.messages.append((answer, plan.id, ms + 600, ms + 900, assistant))
    part(answer, '{"type":"step-start","snapshot":"aa0173fca1d4256439ddf37636c5e77ad81a809b"}')
    for _ in range(rng.randrange(1, 4)):
        part(
            answer,
            f'{{"type":"tool","tool":"bash","callID":"call_{rng.getrandbits(16):04x}","state":{{"status":"completed",'
            f'"input":{{"command":"make check"}},"output":"{bulk.piece(rng)}","metadata":{{"exit":0}},"title":"make",'
            f'"time":{{"start":{ms},"end":{ms}}}}}}}',
        )
    part(answer, f'{{"type":"text","text":"{bulk.piece(rng)}","time":{{"start":{ms},"end":{ms}}}}}')
    part(answer, '{"type":"step-finish","reason":"stop","cost":0.0077}')
