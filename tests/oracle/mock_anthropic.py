#!/usr/bin/env python3
"""A scripted stand-in for the Anthropic Messages API (stdlib only).

It lets the real Claude Code CLI, or the Claude Agent SDK, run end to end with
no model: point ``ANTHROPIC_BASE_URL`` at it and give it a JSON script of the
answers.

    mock_anthropic.py --script script.json [--port 0] [--port-file F] [--log F]

A script is an object (or just a list, taken as ``turns``)::

    {"routes": [
        {"name": "fix", "match": {"prompt": "fix it"}, "steps": [TURN, TURN]},
        {"name": "side", "match": {"has_tools": false}, "turns": [TURN], "loop": true}],
     "turns": [TURN],
     "default": TURN,
     "model": "name to report (default: the one asked for)"}

The first route whose ``match`` holds answers (``matches`` lists the conditions),
else the next of ``turns``, else ``default``. ``steps`` is indexed by how many
answers the conversation has since its last human prompt, so it holds across
resumes and forks; ``turns`` is used one after another, whatever is asked.

A TURN is a string, a list of blocks, or an object ``{"blocks": [...]}`` with any
of ``stop_reason``, ``usage``, ``delay_s``, ``block_delay_s``, ``cut_after_blocks``,
``hang``, ``hang_s``, ``error``. ``build_blocks`` says how a block may be written;
``${NAME}`` in any string is replaced from the given variables.

Endpoints: ``POST /v1/messages`` (SSE when ``stream`` is true, else one JSON
object), ``POST /v1/messages/count_tokens``, ``GET /healthz``, ``GET /_state``.
Everything else is logged and answered 404.

As a library::

    with MockAnthropic(script_dict) as mock:
        env["ANTHROPIC_BASE_URL"] = mock.url
        ...
        mock.requests   # every request seen, as dicts
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

DEFAULT_MODEL = "claude-mock-1"
EXHAUSTED = "(mock: the script has no answer for this request)"


# --------------------------------------------------------------------------
# Reading a request
# --------------------------------------------------------------------------


def text_of(content: Any) -> str:
    """All text in a message's content (string or list of blocks)."""
    if isinstance(content, str):
        return content
    out: list[str] = []
    for block in content or []:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "text":
            out.append(str(block.get("text", "")))
        elif block.get("type") == "tool_result":
            out.append(text_of(block.get("content")))
    return "\n".join(out)


def strip_reminders(text: str) -> str:
    """Drop the ``<system-reminder>`` blocks that the CLI injects."""
    return re.sub(r"<system-reminder>.*?</system-reminder>", "", text, flags=re.S)


def has_tool_result(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(
        isinstance(b, dict) and b.get("type") == "tool_result" for b in content
    )


def last_text(content: Any) -> str:
    """The last text of a message that is not a ``<system-reminder>``.

    The CLI merges consecutive user messages into one (a prompt whose turn
    failed and the next prompt, say), one text block each: the last one counts.
    """
    if isinstance(content, str):
        return strip_reminders(content).strip()
    for block in reversed(content or []):
        if isinstance(block, dict) and block.get("type") == "text":
            text = strip_reminders(str(block.get("text", ""))).strip()
            if text:
                return text
    return ""


def prompt_and_step(body: dict[str, Any]) -> tuple[str, int]:
    """The last human prompt, and how many answers were given since it.

    A "human prompt" is the last text block of the last user message that has
    some text of its own and no tool_result. The step is the number of assistant
    messages after it, so step 0 is the first answer to the prompt. This depends
    on the request alone, not on what the server saw earlier: it holds across
    restarts, resumes and forks.
    """
    messages = body.get("messages") or []
    for i in range(len(messages) - 1, -1, -1):
        m = messages[i]
        if m.get("role") != "user" or has_tool_result(m):
            continue
        text = last_text(m.get("content"))
        if text:
            step = sum(1 for x in messages[i + 1 :] if x.get("role") == "assistant")
            return text, step
    return "", sum(1 for x in messages if x.get("role") == "assistant")


def system_text(body: dict[str, Any]) -> str:
    return text_of(body.get("system")) if body.get("system") else ""


def tool_names(body: dict[str, Any]) -> list[str]:
    return [str(t.get("name")) for t in body.get("tools") or []]


# --------------------------------------------------------------------------
# Choosing an answer
# --------------------------------------------------------------------------


def _contains(needle: Any, haystack: str) -> bool:
    needles = needle if isinstance(needle, list) else [needle]
    return all(n in haystack for n in needles)


def matches(rule: dict[str, Any], body: dict[str, Any]) -> bool:
    """Whether every condition of ``rule`` holds for the request ``body``.

    Conditions: ``prompt`` (substring of the last human prompt),
    ``prompt_regex``, ``system`` (substring of the system prompt), ``any``
    (substring of the whole body as JSON), ``tool`` / ``no_tool`` (a tool is /
    is not offered), ``has_tools`` (bool), ``model`` (substring), ``stream``.
    """
    prompt, _ = prompt_and_step(body)
    for key, want in rule.items():
        if key == "prompt":
            ok = _contains(want, prompt)
        elif key == "prompt_regex":
            ok = re.search(want, prompt) is not None
        elif key == "system":
            ok = _contains(want, system_text(body))
        elif key == "any":
            ok = _contains(want, json.dumps(body, ensure_ascii=False))
        elif key == "tool":
            ok = want in tool_names(body)
        elif key == "no_tool":
            ok = want not in tool_names(body)
        elif key == "has_tools":
            ok = bool(body.get("tools")) == bool(want)
        elif key == "model":
            ok = want in str(body.get("model"))
        elif key == "stream":
            ok = bool(body.get("stream")) == bool(want)
        else:
            raise ValueError(f"unknown match condition {key!r}")
        if not ok:
            return False
    return True


def as_turn(raw: Any) -> dict[str, Any]:
    """Normalize a scripted turn: a string, a list of blocks, or an object."""
    if isinstance(raw, str):
        return {"blocks": [{"type": "text", "text": raw}]}
    if isinstance(raw, list):
        return {"blocks": raw}
    turn = dict(raw)
    if "text" in turn and "blocks" not in turn:
        turn["blocks"] = [{"type": "text", "text": turn.pop("text")}]
    turn.setdefault("blocks", [])
    return turn


class Script:
    """The answers, and the cursors of the sequential lanes.

    Order of search for each request: ``routes`` in order (each may hold
    ``turns``, used one after another, or ``steps``, indexed by the step within
    the prompt), then the top-level ``turns``, then ``default``.
    """

    def __init__(self, data: dict[str, Any] | list[Any]):
        if isinstance(data, list):
            data = {"turns": data}
        self.data = data
        self.cursors: dict[str, int] = {}
        self.lock = threading.Lock()

    def _next(self, lane: str, turns: list[Any], loop: bool) -> Any | None:
        with self.lock:
            i = self.cursors.get(lane, 0)
            if i >= len(turns):
                if not (loop and turns):
                    return None
                i = 0
            self.cursors[lane] = i + 1
        return turns[i]

    def answer(self, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """``(lane name, turn)`` for the request."""
        for n, route in enumerate(self.data.get("routes") or []):
            if not matches(route.get("match") or {}, body):
                continue
            lane = str(route.get("name") or f"route{n}")
            if "steps" in route:
                _, step = prompt_and_step(body)
                steps = route["steps"]
                if step < len(steps):
                    return f"{lane}[{step}]", as_turn(steps[step])
                if route.get("loop") and steps:
                    return f"{lane}[{step}]", as_turn(steps[step % len(steps)])
                if route.get("fall_through"):
                    continue
                return f"{lane}[{step}]", as_turn(EXHAUSTED)
            raw = self._next(lane, route.get("turns") or [], bool(route.get("loop")))
            if raw is not None:
                return f"{lane}#{self.cursors[lane] - 1}", as_turn(raw)
            if route.get("fall_through"):
                continue
            return f"{lane}#end", as_turn(EXHAUSTED)
        raw = self._next(
            "main", self.data.get("turns") or [], bool(self.data.get("loop"))
        )
        if raw is not None:
            return f"main#{self.cursors['main'] - 1}", as_turn(raw)
        return "default", as_turn(self.data.get("default", EXHAUSTED))


# --------------------------------------------------------------------------
# Building a Messages API answer
# --------------------------------------------------------------------------


def expand(value: Any, variables: dict[str, str]) -> Any:
    """Replace ``${NAME}`` in every string of ``value``."""
    if isinstance(value, str):
        return re.sub(
            r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}",
            lambda m: variables.get(m.group(1), os.environ.get(m.group(1), m.group(0))),
            value,
        )
    if isinstance(value, list):
        return [expand(v, variables) for v in value]
    if isinstance(value, dict):
        return {k: expand(v, variables) for k, v in value.items()}
    return value


def build_blocks(turn: dict[str, Any], variables: dict[str, str]) -> list[dict[str, Any]]:
    """Full content blocks from the short forms a script may use.

    ``"text"`` -> text block. ``{"tool": "Write", "input": {...}}`` -> tool_use
    with a fresh id. ``{"thinking": "..."}`` -> thinking block. A block with a
    ``type`` is passed as it is (ids are filled in when absent).
    """
    out: list[dict[str, Any]] = []
    for raw in expand(turn["blocks"], variables):
        if isinstance(raw, str):
            out.append({"type": "text", "text": raw})
            continue
        block = dict(raw)
        if "type" not in block:
            if "tool" in block:
                block = {
                    "type": "tool_use",
                    "id": block.get("id"),
                    "name": block["tool"],
                    "input": block.get("input") or {},
                }
            elif "thinking" in block:
                block = {"type": "thinking", **block}
            elif "text" in block:
                block = {"type": "text", **block}
            else:
                raise ValueError(f"cannot tell the type of block {raw!r}")
        if block["type"] == "tool_use" and not block.get("id"):
            block["id"] = "toolu_mock" + uuid.uuid4().hex[:20]
        if block["type"] == "thinking":
            block.setdefault("signature", "bW9jay1zaWduYXR1cmU=")
        out.append(block)
    return out


def stop_reason(turn: dict[str, Any], blocks: list[dict[str, Any]]) -> str:
    if turn.get("stop_reason"):
        return str(turn["stop_reason"])
    return "tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn"


def usage_for(
    turn: dict[str, Any], body: dict[str, Any], blocks: list[dict[str, Any]]
) -> dict[str, Any]:
    usage = {
        "input_tokens": max(1, len(json.dumps(body)) // 4),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": max(1, len(json.dumps(blocks)) // 4),
        "service_tier": "standard",
    }
    usage.update(turn.get("usage") or {})
    return usage


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mock: "MockAnthropic"

    # -- plumbing ----------------------------------------------------------

    def log_message(self, *_: Any) -> None:  # quiet
        pass

    def _json(self, status: int, payload: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("request-id", "req_mock" + uuid.uuid4().hex[:20])
        for k, v in (headers or {}).items():
            self.send_header(k, v)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_HEAD(self) -> None:
        self._json(200, {})

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._json(200, {"ok": True})
        elif self.path == "/_state":
            self._json(200, {"requests": len(self.mock.requests), "cursors": self.mock.script.cursors})
        else:
            self.mock.record({"method": "GET", "path": self.path, "status": 404})
            self._error(404, "not_found_error", f"mock: no {self.path}")

    def _error(self, status: int, kind: str, message: str) -> None:
        self._json(status, {"type": "error", "error": {"type": kind, "message": message}})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length) if length else b""
        path = self.path.split("?")[0]
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            body = {"_unparsed": raw[:2000].decode("utf-8", "replace")}
        if path == "/v1/messages/count_tokens":
            n = max(1, len(raw) // 4)
            self.mock.record({"method": "POST", "path": self.path, "lane": "count_tokens", "status": 200})
            self._json(200, {"input_tokens": n})
        elif path == "/v1/messages":
            self._messages(body)
        else:
            self.mock.record({"method": "POST", "path": self.path, "status": 404, "body": body})
            self._error(404, "not_found_error", f"mock: no {path}")

    # -- the Messages API --------------------------------------------------

    def _messages(self, body: dict[str, Any]) -> None:
        lane, turn = self.mock.script.answer(body)
        prompt, step = prompt_and_step(body)
        record = {
            "method": "POST",
            "path": self.path,
            "lane": lane,
            "prompt": prompt[:400],
            "step": step,
            "model": body.get("model"),
            "stream": bool(body.get("stream")),
            "tools": tool_names(body),
            "headers": {
                k.lower(): v
                for k, v in self.headers.items()
                if k.lower() not in ("x-api-key", "authorization")
            },
            "body": body,
        }
        self.mock.record(record)
        if turn.get("delay_s"):
            time.sleep(float(turn["delay_s"]))
        if turn.get("hang"):
            self.mock.stopping.wait(float(turn.get("hang_s", 3600)))
            self.close_connection = True
            return
        error = turn.get("error")
        if error:
            self._error(
                int(error.get("status", 500)),
                str(error.get("type", "api_error")),
                str(error.get("message", "scripted error")),
            )
            return
        blocks = build_blocks(turn, self.mock.variables(body))
        message = {
            "id": turn.get("id") or "msg_mock" + uuid.uuid4().hex[:20],
            "type": "message",
            "role": "assistant",
            "model": turn.get("model") or self.mock.script.data.get("model") or body.get("model") or DEFAULT_MODEL,
            "content": blocks,
            "stop_reason": stop_reason(turn, blocks),
            "stop_sequence": None,
            "usage": usage_for(turn, body, blocks),
        }
        if body.get("stream"):
            self._stream(message, turn)
        else:
            self._json(200, message)

    def _stream(self, message: dict[str, Any], turn: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("request-id", "req_mock" + uuid.uuid4().hex[:20])
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

        def send(event: str, data: dict[str, Any]) -> None:
            self.wfile.write(
                f"event: {event}\ndata: {json.dumps({'type': event, **data})}\n\n".encode()
            )
            self.wfile.flush()

        try:
            blocks = message["content"]
            start_usage = {**message["usage"], "output_tokens": 1}
            send(
                "message_start",
                {"message": {**message, "content": [], "stop_reason": None, "usage": start_usage}},
            )
            cut = turn.get("cut_after_blocks")
            for i, block in enumerate(blocks):
                if cut is not None and i >= int(cut):
                    return  # the connection drops mid-stream
                if turn.get("block_delay_s") and i:
                    time.sleep(float(turn["block_delay_s"]))
                if block["type"] == "text":
                    send("content_block_start", {"index": i, "content_block": {"type": "text", "text": ""}})
                    text = block["text"]
                    size = int(turn.get("chunk", 64))
                    for at in range(0, max(len(text), 1), size):
                        send(
                            "content_block_delta",
                            {"index": i, "delta": {"type": "text_delta", "text": text[at : at + size]}},
                        )
                elif block["type"] == "tool_use":
                    send("content_block_start", {"index": i, "content_block": {**block, "input": {}}})
                    send(
                        "content_block_delta",
                        {
                            "index": i,
                            "delta": {"type": "input_json_delta", "partial_json": json.dumps(block["input"])},
                        },
                    )
                elif block["type"] == "thinking":
                    send(
                        "content_block_start",
                        {"index": i, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
                    )
                    send(
                        "content_block_delta",
                        {"index": i, "delta": {"type": "thinking_delta", "thinking": block["thinking"]}},
                    )
                    send(
                        "content_block_delta",
                        {"index": i, "delta": {"type": "signature_delta", "signature": block["signature"]}},
                    )
                else:
                    send("content_block_start", {"index": i, "content_block": block})
                send("content_block_stop", {"index": i})
            send(
                "message_delta",
                {
                    "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
                    "usage": message["usage"],
                },
            )
            send("message_stop", {})
        except (BrokenPipeError, ConnectionResetError):
            self.mock.record({"method": "-", "path": "client went away"})


# --------------------------------------------------------------------------
# The server
# --------------------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class MockAnthropic:
    """The mock server, run in a thread. Use as a context manager."""

    def __init__(
        self,
        script: dict[str, Any] | list[Any] | str | Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        log: str | Path | None = None,
        variables: dict[str, str] | None = None,
    ):
        if isinstance(script, (str, Path)):
            script = json.loads(Path(script).read_text(encoding="utf-8"))
        self.script = Script(script)
        self.requests: list[dict[str, Any]] = []
        self.stopping = threading.Event()
        self._vars = variables or {}
        self._log = open(log, "a", encoding="utf-8") if log else None
        self._lock = threading.Lock()
        handler = type("BoundHandler", (Handler,), {"mock": self})
        self._server = _Server((host, port), handler)
        self.port = self._server.server_address[1]
        self.url = f"http://{host}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def variables(self, body: dict[str, Any]) -> dict[str, str]:
        """Values for ``${...}`` in the script: given ones, then request facts."""
        last = ""
        for m in reversed(body.get("messages") or []):
            if m.get("role") == "user" and has_tool_result(m):
                last = strip_reminders(text_of(m.get("content"))).strip()
                break
        return {"PROMPT": prompt_and_step(body)[0], "LAST_TOOL_RESULT": last, **self._vars}

    def record(self, item: dict[str, Any]) -> None:
        item = {"n": len(self.requests), "t": round(time.time(), 3), **item}
        with self._lock:
            self.requests.append(item)
            if self._log:
                self._log.write(json.dumps(item, ensure_ascii=False) + "\n")
                self._log.flush()

    def start(self) -> "MockAnthropic":
        self._thread.start()
        return self

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        if self._log:
            self._log.close()
            self._log = None

    def __enter__(self) -> "MockAnthropic":
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.stop()


def main(argv: list[str] | None = None) -> int:
    ap = argparse.ArgumentParser(description="Scripted mock of the Anthropic Messages API")
    ap.add_argument("--script", required=True, help="JSON script file")
    ap.add_argument("--host", default="127.0.0.1")
    ap.add_argument("--port", type=int, default=0, help="0: any free port")
    ap.add_argument("--port-file", help="write the port here once listening")
    ap.add_argument("--log", help="append every request here, one JSON object a line")
    ap.add_argument("--var", action="append", default=[], metavar="NAME=VALUE", help="value for ${NAME} in the script")
    args = ap.parse_args(argv)
    variables = dict(v.split("=", 1) for v in args.var)
    mock = MockAnthropic(args.script, host=args.host, port=args.port, log=args.log, variables=variables)
    done = threading.Event()
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda *_: done.set())
    with mock:
        if args.port_file:
            tmp = Path(args.port_file + ".tmp")
            tmp.write_text(str(mock.port))
            tmp.rename(args.port_file)
        print(mock.url, flush=True)
        done.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
