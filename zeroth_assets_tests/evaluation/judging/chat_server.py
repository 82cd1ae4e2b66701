"""A chat server on the loopback interface that speaks the protocol, and misbehaves on command.

What belongs here: the server and its misdeeds. It keeps every byte that it was sent.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = dict[str, Any]
PASSAGE = re.compile(r"\[(P\d+) ([0-9a-f]{12})\]\n(.*?)\n\[end of \1 \2\]", re.DOTALL)


def grade_of(text: str) -> int:
    """What this server's model thinks of a passage: as good as it is long, in words."""
    return min(3, len(text.split()) // 4)


@dataclass
class ChatServer:
    """What the server says, and what it was told. `script` holds misdeeds for the next completions, in order."""

    model: str = "judge-2025-04-14"
    models: list[Answer] = field(default_factory=lambda: [{"id": "judge-2025-04-14", "owned_by": "someone"}])
    answers_as: str | None = None
    script: list[str] = field(default_factory=list)
    always: str | None = None
    grade: Callable[[str], int] = grade_of
    pages: dict[str, Answer] = field(default_factory=dict)
    refuses_fields: frozenset[str] = frozenset()
    usage: Answer | None = field(
        default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    )
    sent: list[bytes] = field(default_factory=list)
    bodies: list[Answer] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)
    on_completion: Callable[[int], None] | None = None
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def completion(self, body: Answer) -> Answer:
        """A well-behaved answer to a request."""
        found = {label: text for label, _, text in PASSAGE.findall(body["messages"][0]["content"])}
        grades = {label: self.grade(text) for label, text in found.items()}
        name = self.answers_as or body["model"]
        answer: Answer = {
            "id": "x",
            "object": "chat.completion",
            "model": name,
            "system_fingerprint": "fp_1",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": json.dumps(grades)},
                    "finish_reason": "stop",
                }
            ],
        }
        if self.usage is not None:
            answer["usage"] = self.usage
        return answer


def _content(answer: Answer, change: Callable[[Answer], Any]) -> str:
    """The answer as bytes, its content replaced by what `change` makes of the grades."""
    message = answer["choices"][0]["message"]
    changed = change(json.loads(message["content"]))
    message["content"] = changed if isinstance(changed, str) else json.dumps(changed)
    return json.dumps(answer)


def _finish(reason: str) -> Callable[[Answer], str]:
    def change(answer: Answer) -> str:
        answer["choices"][0]["finish_reason"] = reason
        return json.dumps(answer)

    return change


def _as_model(name: str | None) -> Callable[[Answer], str]:
    return lambda answer: json.dumps({**answer, "model": name})


# Each makes the body of a 200 from the good answer.
MISDEEDS: dict[str, Callable[[Answer], str]] = {
    "truncated": _finish("length"),
    "filtered": _finish("content_filter"),
    "tool": _finish("tool_calls"),
    "prose": lambda a: _content(a, lambda _: "They are all good."),
    "fenced": lambda a: _content(a, lambda grades: f"```json\n{json.dumps(grades)}\n```"),
    "list": lambda a: _content(a, lambda grades: [{"passage": k, "grade": v} for k, v in grades.items()]),
    "grade 4": lambda a: _content(a, lambda grades: {**grades, "P1": 4}),
    "grade -1": lambda a: _content(a, lambda grades: {**grades, "P1": -1}),
    "grade 2.0": lambda a: _content(a, lambda grades: {**grades, "P1": 2.0}),
    "grade true": lambda a: _content(a, lambda grades: {**grades, "P1": True}),
    "grade text": lambda a: _content(a, lambda grades: {**grades, "P1": "2"}),
    "grade null": lambda a: _content(a, lambda grades: {**grades, "P1": None}),
    "NaN": lambda a: _content(a, lambda grades: json.dumps({**grades, "P1": float("nan")})),
    "stranger": lambda a: _content(a, lambda grades: {**grades, "P99": 1}),
    "missing": lambda a: _content(a, lambda grades: {k: v for k, v in grades.items() if k != "P1"}),
    "duplicate": lambda a: _content(a, lambda grades: json.dumps(grades)[:-1] + ', "P1": 0}'),
    "deep": lambda a: _content(a, lambda _: "[" * 50_000),
    "wrong snapshot": _as_model("judge-2025-08-01"),
    "alias": _as_model("judge"),
    "no model": _as_model(None),
    "no choices": lambda a: json.dumps({**a, "choices": []}),
    "no content": lambda a: json.dumps({**a, "choices": [{"message": {"content": None}, "finish_reason": "stop"}]}),
    "refusal": lambda a: json.dumps(
        {**a, "choices": [{"message": {"content": "{}", "refusal": "No."}, "finish_reason": "stop"}]}
    ),
    "html": lambda _: "<html>an error page with status 200</html>",
    "envelope NaN": lambda a: json.dumps({**a, "usage": {"prompt_tokens": float("nan")}}),
}


class _Tee:
    """Reads on, and keeps what went by."""

    def __init__(self, stream: Any, kept: list[bytes]) -> None:
        self._stream, self._kept = stream, kept

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._stream.read(size)
        self._kept.append(data)
        return data

    def readline(self, size: int = -1) -> bytes:
        data: bytes = self._stream.readline(size)
        self._kept.append(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            self.rfile = _Tee(self.rfile, server.sent)  # type: ignore[assignment]

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                self._send(200, json.dumps({"object": "list", "data": server.models}))
            elif self.path in server.pages:
                self._send(200, json.dumps(server.pages[self.path]))
            else:
                self._send(404, '{"error": {"type": "not_found"}}')

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with server.lock:
                server.bodies.append(body)
                number = len(server.bodies)
                misdeed = server.script.pop(0) if server.script else server.always
            if server.on_completion is not None:
                server.on_completion(number)
            if server.refuses_fields & body.keys():
                error = {"message": f"unknown: {body}", "type": "invalid_request_error", "code": "unknown_parameter"}
                self._send(400, json.dumps({"error": error}))
            elif misdeed is None:
                self._send(200, json.dumps(server.completion(body)))
            elif misdeed in MISDEEDS:
                self._send(200, MISDEEDS[misdeed](server.completion(body)))
            else:
                self._misbehave(misdeed, body)

        def _misbehave(self, misdeed: str, body: Answer) -> None:
            if misdeed.startswith("status "):
                _, status, *rest = misdeed.split(" ", 2)
                headers = {"Retry-After": rest[0]} if rest else {}
                if status == "307":
                    headers["Location"] = server.url + "/elsewhere"
                echo = self.headers.get("Authorization", "")
                key = echo.removeprefix("Bearer ")
                error = {"message": f"{echo} {body['messages']}", "type": "server_error", "code": key or "broken"}
                self._send(int(status), json.dumps({"error": error}), headers)
            elif misdeed == "drop":
                # A reset, not an end: nothing of the answer arrives.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
                self.connection.close()
            elif misdeed == "half":
                self.send_response(200)
                self.send_header("Content-Length", "5000")
                self.end_headers()
                self.wfile.write(json.dumps(server.completion(body)).encode()[:50])
                self.close_connection = True
            elif misdeed == "slow":
                server.release.wait(30)
                self.close_connection = True
            else:
                raise AssertionError(misdeed)

        def _send(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    return Handler


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that goes away is part of the play."""


@contextlib.contextmanager
def running(server: ChatServer) -> Iterator[ChatServer]:
    """Serve until the block ends."""
    listener = _Quiet(("127.0.0.1", 0), _handler(server))
    server.url = f"http://127.0.0.1:{listener.server_address[1]}/v1"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        listener.shutdown()
        listener.server_close()
        thread.join()
