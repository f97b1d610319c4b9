"""Runs `tidyberg plan` for a pull request, and writes the plan into its comment and into the job summary."""

import json
import os
import secrets
import subprocess
import sys
import urllib.error
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plan_markdown import comment, marker
from pull_request import PullRequest, ReadOnlyError

NOTHING_TO_DO = 3
READ_ONLY = (
    "The token of this workflow may not write comments, as in pull requests from forks. "
    "The plan is in the job summary only."
)


def main(environ: Mapping[str, str]) -> int:
    title = environ.get("PLAN_TITLE") or "tidyberg plan"
    status, documents = plan(environ)
    if documents is None:
        say("error", "tidyberg plan has no result. Its message is above.")
        return status or 1
    text = comment(title, documents)
    note = publish(environ, text, marker(title))
    with Path(environ["GITHUB_STEP_SUMMARY"]).open("a") as summary:
        summary.write(f"{text}\n" if note is None else f"{text}\n\n{note}\n")
    return 0 if status == NOTHING_TO_DO else status


def plan(environ: Mapping[str, str]) -> tuple[int, list[dict[str, Any]] | None]:
    """Returns the exit code, and a document for each table, or None if there are none."""
    tables = environ["PLAN_TABLES"].split()
    if not tables:
        say("error", "The input `tables` is empty. Name tables such as sales.orders.")
        return 2, None
    command = [str(Path(environ["RUNNER_TEMP"]) / "tidyberg" / "bin" / "tidyberg"), "plan", "--json"]
    given = {flag: environ.get(f"PLAN_{flag.upper()}") for flag in ("config", "catalog", "strategy", "where")}
    command += [f"--{flag}={value}" for flag, value in given.items() if value]
    own = {name: value for name, value in environ.items() if name != "GITHUB_TOKEN" and not name.startswith("PLAN_")}
    # What it says is no command to the runner, although lines that begin with `::` are.
    pause = secrets.token_hex(16)
    _tell_runner(f"::stop-commands::{pause}")
    ran = subprocess.run([*command, "--", *tables], env=own, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    _tell_runner(f"::{pause}::")
    try:
        found = json.loads(ran.stdout)
    except ValueError:
        return ran.returncode, None
    documents = found if isinstance(found, list) else [found]
    return ran.returncode, documents if all("table" in each for each in documents) else None


def publish(environ: Mapping[str, str], text: str, mark: str) -> str | None:
    """Writes the comment. Returns a note for the summary if there is none."""
    event = json.loads(Path(environ["GITHUB_EVENT_PATH"]).read_text())
    number = (event.get("pull_request") or {}).get("number")
    if number is None:
        return "This run belongs to no pull request, so there is no comment."
    request = PullRequest(environ["GITHUB_API_URL"], environ["GITHUB_REPOSITORY"], number, environ["GITHUB_TOKEN"])
    try:
        address = request.write(text, mark)
    except ReadOnlyError:
        say("notice", READ_ONLY)
        return READ_ONLY
    with Path(environ["GITHUB_OUTPUT"]).open("a") as output:
        output.write(f"comment={address}\n")
    return None


def say(level: str, words: str) -> None:
    _tell_runner(f"::{level}::{words}")


def _tell_runner(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main(os.environ))
    except urllib.error.URLError as error:
        say("error", f"GitHub did not take the comment: {error}. Run the job again.")
        sys.exit(1)
