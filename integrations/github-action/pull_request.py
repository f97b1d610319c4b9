"""The comments of one pull request, through GitHub's REST API."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

BOT = "github-actions[bot]"  # the author of comments that are written with a workflow's own token
TIMEOUT_SECONDS = 30.0
PAGE = 100
MOST_PAGES = 100


class ReadOnlyError(Exception):
    """The token may not write comments, as in pull requests from forks."""


@dataclass(frozen=True)
class PullRequest:
    api: str  # such as https://api.github.com
    repository: str  # owner/name
    number: int
    token: str = field(repr=False)

    def write(self, body: str, marker: str) -> str:
        """Updates the comment with the marker, or creates it. Returns its address."""
        found = self._find(marker)
        if found is None:
            written = self._call("POST", f"issues/{self.number}/comments", {"body": body})
        else:
            written = self._call("PATCH", f"issues/comments/{found}", {"body": body})
        return str(written["html_url"])

    def _find(self, marker: str) -> int | None:
        """Returns the id of our comment. Anybody can write the marker, so the author counts, too."""
        for page in range(1, MOST_PAGES + 1):
            comments = self._call("GET", f"issues/{self.number}/comments?per_page={PAGE}&page={page}")
            for each in comments:
                if (each.get("user") or {}).get("login") == BOT and str(each.get("body") or "").startswith(marker):
                    return int(each["id"])
            if len(comments) < PAGE:
                return None
        return None

    def _call(self, method: str, path: str, body: dict[str, str] | None = None) -> Any:
        if not self.api.startswith(("https://", "http://")):
            raise ValueError(f"GITHUB_API_URL is {self.api!r}, which is no address of a web server.")
        request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
            f"{self.api}/repos/{self.repository}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 403:
                raise ReadOnlyError from error
            raise
