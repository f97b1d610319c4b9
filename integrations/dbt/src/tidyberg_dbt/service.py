"""Submits compactions to a tidyberg service, and waits for them."""

import time
from dataclasses import dataclass, field
from typing import Any

import httpx

TIMEOUT_SECONDS = 60.0
FAILURES_IN_A_ROW = 10  # a service that restarts is away for a while, and its jobs continue
FINAL = ("succeeded", "failed", "cancelled")


class RefusedError(Exception):
    """The service refused a call."""


@dataclass(frozen=True)
class Service:
    url: str
    token: str | None = field(default=None, repr=False)
    wait: bool = True
    poll_seconds: float = 1.0

    def compact(self, table: str, key: str) -> dict[str, str]:
        """Returns a `message`, or an `error`. It never raises, because the tables of the run are already built."""
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            with httpx.Client(base_url=self.url, headers=headers, timeout=TIMEOUT_SECONDS) as client:
                sent = client.post("/api/v1/compact", json={"table": table}, headers={"Idempotency-Key": key})
                job_id = _document(sent)["job_id"]
                if not self.wait:
                    return {"message": f"job {job_id} is queued"}
                return _told(self._ended(client, job_id))
        except httpx.HTTPError as error:
            return {"error": f"The service at {self.url} does not answer: {error}. Check that it runs."}
        except RefusedError as error:
            return {"error": str(error)}

    def _ended(self, client: httpx.Client, job_id: str) -> dict[str, Any]:
        failures = 0
        while True:
            try:
                job = _document(client.get(f"/api/v1/jobs/{job_id}"))
            except (httpx.TransportError, RefusedError):
                failures += 1
                if failures >= FAILURES_IN_A_ROW:
                    raise
            else:
                failures = 0
                if job["status"] in FINAL:
                    return job
            time.sleep(self.poll_seconds)


def _told(job: dict[str, Any]) -> dict[str, str]:
    if job["status"] != "succeeded":
        reason = (job.get("error") or {}).get("message") or "the service has no reason"
        return {"error": f"job {job['job_id']} {job['status']}: {reason}"}
    words = f"{job['outcome']}, job {job['job_id']}"
    stats = job.get("stats")
    if job["outcome"] in ("committed", "partly") and stats:
        words = f"{words}, {stats['files_before']} files became {stats['files_after']}"
    return {"message": words}


def _document(answer: httpx.Response) -> dict[str, Any]:
    document: dict[str, Any] = answer.json() if "json" in answer.headers.get("content-type", "") else {}
    if answer.is_error:
        raise RefusedError(
            f"The service answered {answer.status_code}: {document.get('detail') or answer.reason_phrase}"
        )
    return document
