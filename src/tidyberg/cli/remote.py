"""Implements the commands for jobs and schedules of a service."""

import json
import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import typer
from rich.console import RenderableType
from rich.text import Text

from tidyberg.cli.as_json import print_json
from tidyberg.cli.flags import OptionFlags, ServerFlags
from tidyberg.cli.formatting import dollars, duration, plural
from tidyberg.cli.listing import Listing
from tidyberg.cli.session import standard_error, standard_output
from tidyberg.cli.show_jobs import STYLES, in_words
from tidyberg.client import Client, Event, Job, Schedule
from tidyberg.errors import BadInput
from tidyberg.model.job import JobStatus
from tidyberg.model.options import VerifyMode

_MOST_ON_A_PAGE = 500


def submit(
    server: ServerFlags,
    table: str,
    option: OptionFlags,
    *,
    catalog: str | None,
    priority: int,
    verify: VerifyMode | None,
    key: str | None,
    follow: bool,
) -> None:
    options = {name: value for name, value in option.overrides().items() if value is not None}
    given: dict[str, Any] = {
        "catalog": catalog,
        "strategy": options.pop("strategy", None),
        "verify": verify,
        "key": key,
    }
    asked = {name: value for name, value in given.items() if value is not None}
    with connect(server) as client:
        created = client.submit(table, options=options, priority=priority, **asked)
        if follow:
            _follow(server, client, created.job_id)
            return
    expected = created.estimated_duration_seconds
    words = f"job {created.job_id} is {created.status.value}"
    words += f"; it is expected to take {duration(expected)}" if expected is not None else ""
    show(server, Text(f"{words}\ntidyberg watch {created.job_id}"), created.model_dump(mode="json"))


def jobs(
    server: ServerFlags, *, status: Sequence[JobStatus], table: str | None, catalog: str | None, limit: int
) -> None:
    which: dict[str, Any] = {"table": table, "catalog": catalog, "status": status}
    which = {name: value for name, value in which.items() if value}
    found: list[Job] = []
    with connect(server) as client:
        while len(found) < limit:
            page = client.jobs(limit=min(limit - len(found), _MOST_ON_A_PAGE), **which)
            found += page.jobs
            if page.next_cursor is None:
                break
            which["cursor"] = page.next_cursor
    show(server, show_remote_jobs(found), {"jobs": [job.model_dump(mode="json") for job in found]})


def watch(server: ServerFlags, job_id: str) -> None:
    with connect(server) as client:
        _follow(server, client, job_id)


def cancel(server: ServerFlags, job_id: str) -> None:
    with connect(server) as client:
        job = client.cancel(job_id)
    words = f"job {job_id} is {job.status.value}" + ("" if job.has_ended else " and will stop soon")
    show(server, Text(words), job.model_dump(mode="json"))


def schedules(server: ServerFlags) -> None:
    with connect(server) as client:
        found = client.schedules()
    show(server, show_schedules(found), {"schedules": [one.model_dump(mode="json") for one in found]})


def connect(server: ServerFlags) -> Client:
    return Client(server.server, token=_token(server))


def _token(server: ServerFlags) -> str | None:
    if server.token_file is None:
        return os.environ.get("TIDYBERG_TOKEN") or None
    try:
        return server.token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{server.token_file} cannot be read ({error}).", hint="--token-file must name a file with the token."
        ) from None


def _follow(server: ServerFlags, client: Client, job_id: str) -> None:
    """Prints events on standard error and the job at the end. Exits with 1 if the job did not succeed."""
    console = standard_error()
    for event in client.watch(job_id):
        if (line := _line(event)) and not server.json:
            console.print(line, markup=False, soft_wrap=True)
    job = client.job(job_id)
    show(server, Text(f"job {job.job_id} {job.status.value}: {what_came_of(job)}"), job.model_dump(mode="json"))
    if job.status is not JobStatus.SUCCEEDED or job.outcome == "partly":
        raise typer.Exit(1)


def _line(event: Event) -> str:
    data = event.data
    match event.kind:
        case "stage":
            return f"{data.get('stage')}: {data['message']}" if data.get("message") else str(data.get("stage", ""))
        case "notice":
            return f"{data.get('level', 'info')}: {data.get('message', '')}"
        case "progress":
            done, total = data.get("groups_completed", 0), data.get("groups_total", 0)
            return f"{done} of {plural(total, 'group')}, {plural(data.get('files_processed', 0), 'file')} rewritten"
        case "status":
            return str(data.get("status", ""))
    return ""


def show_remote_jobs(found: Sequence[Job]) -> RenderableType:
    if not found:
        return Text("no such jobs")
    table = Listing()
    for heading in ("created", "job", "table", "strategy", "status"):
        table.add_column(heading, no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True)
    table.add_column("what", overflow="fold")
    for job in found:
        created = job.created_at.strftime("%Y-%m-%d %H:%M:%S")
        status = Text(job.status.value, style=STYLES.get(job.status, ""))
        table.add_row(created, job.job_id, job.identifier, job.strategy, status, _took(job), what_came_of(job))
    return table


def show_schedules(found: Sequence[Schedule]) -> RenderableType:
    if not found:
        return Text("there are no schedules")
    table = Listing()
    for heading in ("schedule", "catalog", "table", "cron", "time zone", "last", "next", "options"):
        table.add_column(heading, no_wrap=heading not in ("schedule", "options"), overflow="fold")
    for one in found:
        upcoming = _time_in(one.next_due, one.timezone) if one.enabled else "paused"
        last = _time_in(one.last_due, one.timezone)
        asked = ", ".join(f"{name}={_brief(value)}" for name, value in _asked(one).items()) or "–"
        table.add_row(one.schedule_id, one.catalog or "", one.table, one.cron, one.timezone, last, upcoming, asked)
    return table


def _asked(schedule: Schedule) -> dict[str, Any]:
    kind = {} if schedule.kind == "compact" else {"kind": schedule.kind}
    return {**kind, **({"strategy": schedule.strategy} if schedule.strategy else {}), **schedule.options}


def _brief(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _time_in(then: datetime | None, timezone: str) -> str:
    return "–" if then is None else then.astimezone(ZoneInfo(timezone)).strftime("%Y-%m-%d %H:%M")


def what_came_of(job: Job) -> str:
    if job.error is not None:
        return job.error.message
    left = "; ".join(f"{each.disposition}: {plural(each.files, 'file')}: {each.reason}" for each in job.left)
    if job.expired is not None and job.expired.snapshots_expired and job.kind != "compact":
        deleted = f"{plural(job.expired.files_deleted, 'file')} deleted"
        return f"{plural(job.expired.snapshots_expired, 'snapshot')} expired, {deleted}"
    if job.outcome in ("nothing", "tidy", "waiting", "refused"):
        return left or ("tidy" if job.outcome == "tidy" else "nothing to do")
    if job.stats is not None:
        cost = f", {dollars(job.cost)}" if job.cost is not None else ""
        return f"{in_words(job.stats)}{cost}" + (f"; {left}" if left else "")
    return job.outcome or job.stage or ""


def _took(job: Job) -> str:
    if job.started_at is None or job.finished_at is None:
        return "–"
    return duration((job.finished_at - job.started_at).total_seconds())


def show(server: ServerFlags, text: RenderableType, document: Any) -> None:
    if server.json:
        print_json(document)
    else:
        standard_output().print(text, soft_wrap=True)
