"""A resource that runs jobs through a tidyberg service."""

import time
from collections.abc import Mapping
from typing import Any

import dagster as dg
import httpx
from pydantic import Field

from tidyberg_dagster.jobs import JobRunner, TableJob, TableRequest, TableScore, TidybergError

TIMEOUT_SECONDS = 60.0
FAILURES_IN_A_ROW = 10  # a service that restarts is away for a while, and its jobs continue
FINAL = ("succeeded", "failed", "cancelled")


class TidybergService(JobRunner):
    """The address of a service, and the API key. If the step is interrupted, its job is cancelled."""

    url: str = Field(description="Address of the service, such as https://tidyberg.internal:8080.")
    token: str | None = Field(default=None, description='API key. Use dg.EnvVar("TIDYBERG_TOKEN").')
    poll_seconds: float = Field(default=5.0, gt=0, description="Seconds between two looks at a job.")

    def run(self, request: TableRequest, key: str) -> TableJob:
        with self._client() as client:
            headers = {"Idempotency-Key": key}
            job_id = _document(client.post(f"/api/v1/{request.kind}", json=request.body, headers=headers))["job_id"]
            try:
                job = self._ended(client, job_id)
            except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
                client.delete(f"/api/v1/jobs/{job_id}")
                raise
        if job["status"] != "succeeded":
            reason = (job.get("error") or {}).get("message") or "the service has no reason"
            raise TidybergError(f"Job {job_id} of table {request.table} {job['status']}: {reason}")
        return TableJob(
            job_id=job_id,
            outcome=str(job.get("outcome")),
            stats=job.get("stats"),
            dollars=job.get("cost"),
            snapshot_id=job.get("snapshot_id"),
            url=f"{self.url.rstrip('/')}/api/v1/jobs/{job_id}",
        )

    def health(self, table: str, catalog: str | None = None) -> TableScore:
        namespace, _, name = table.rpartition(".")
        with self._client() as client:
            # A service with one catalog also knows it as "default".
            found = _document(client.get(f"/api/v1/tables/{catalog or 'default'}/{namespace}/{name}/health"))
        return TableScore(found["score"], tuple(found["reasons"]), found["files"], found["small_files"])

    def _ended(self, client: httpx.Client, job_id: str) -> Mapping[str, Any]:
        failures = 0
        while True:
            try:
                job = _document(client.get(f"/api/v1/jobs/{job_id}"))
            except (httpx.TransportError, TidybergError) as error:
                failures += 1
                if failures >= FAILURES_IN_A_ROW:
                    raise TidybergError(
                        f"The service stopped answering about job {job_id}: {error}. The job may still run."
                    ) from error
            else:
                failures = 0
                if job["status"] in FINAL:
                    return job
            time.sleep(self.poll_seconds)

    def _client(self) -> httpx.Client:
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return httpx.Client(base_url=self.url, headers=headers, timeout=TIMEOUT_SECONDS)


def _document(answer: httpx.Response) -> dict[str, Any]:
    document: dict[str, Any] = answer.json() if "json" in answer.headers.get("content-type", "") else {}
    if answer.is_error:
        detail = document.get("detail") or answer.reason_phrase
        raise TidybergError(f"The service answered {answer.status_code}: {detail}")
    return document
