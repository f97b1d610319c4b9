"""A web server that plays the comments of a pull request on GitHub."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

BOT = "github-actions[bot]"
COMMENTS = "/repos/acme/lake/issues/7/comments"


class CommentsApi:
    """Keeps comments as GitHub does: pages of at most 100, and the author is who holds the token."""

    def __init__(self, token: str, read_only: bool) -> None:
        self.token = token
        self.read_only = read_only
        self.comments: list[dict[str, Any]] = []
        self.calls: list[str] = []

    def add(self, login: str, body: str) -> dict[str, Any]:
        number = len(self.comments) + 1
        self.comments.append(
            {"id": number, "user": {"login": login}, "body": body, "html_url": f"https://github.test/comment/{number}"}
        )
        return self.comments[-1]

    def by_the_bot(self) -> list[str]:
        return [each["body"] for each in self.comments if each["user"]["login"] == BOT]

    def answer(self, method: str, target: str, body: dict[str, Any]) -> tuple[int, Any]:
        parts = urlsplit(target)
        if method == "GET" and parts.path == COMMENTS:
            query = {name: int(values[0]) for name, values in parse_qs(parts.query).items()}
            first = (query.get("page", 1) - 1) * query["per_page"]
            return 200, self.comments[first : first + min(query["per_page"], 100)]
        if self.read_only:
            return 403, {"message": "Resource not accessible by integration"}
        if method == "POST" and parts.path == COMMENTS:
            return 201, self.add(BOT, body["body"])
        found = [each for each in self.comments if parts.path == f"/repos/acme/lake/issues/comments/{each['id']}"]
        if method == "PATCH" and found:
            found[0]["body"] = body["body"]
            return 200, found[0]
        return 404, {"message": "Not Found"}


@contextmanager
def serving_comments(token: str, *, read_only: bool = False) -> Iterator[tuple[str, CommentsApi]]:
    """Yields the address of the API and what it keeps."""
    api = CommentsApi(token, read_only)

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            api.calls.append(f"{self.command} {urlsplit(self.path).path}")
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
            allowed = self.headers["Authorization"] == f"Bearer {api.token}"
            status, document = (
                api.answer(self.command, self.path, body) if allowed else (401, {"message": "Bad credentials"})
            )
            answer = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PATCH = _serve  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Writes nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", api
        finally:
            server.shutdown()
            thread.join()
