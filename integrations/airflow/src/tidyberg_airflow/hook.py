"""Calls a tidyberg service. The connection has its address, and the API key as its password."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx
from airflow.sdk import BaseHook

if TYPE_CHECKING:
    from airflow.sdk import Connection

TIMEOUT_SECONDS = 60.0
FINAL = ("succeeded", "failed", "cancelled")
KINDS = ("compact", "expire", "maintain")


class TidybergError(Exception):
    """The service refused a call, or a job did not succeed."""


class TidybergHook(BaseHook):
    conn_name_attr = "tidyberg_conn_id"
    default_conn_name = "tidyberg_default"
    conn_type = "tidyberg"
    hook_name = "tidyberg"

    def __init__(self, tidyberg_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.tidyberg_conn_id = tidyberg_conn_id

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        return {
            "hidden_fields": ["login", "extra"],
            "relabeling": {"password": "API key", "schema": "http or https"},
            "placeholders": {"host": "tidyberg.internal", "port": "8080", "schema": "https"},
        }

    def submit(self, kind: str, body: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
        """Submits a job. Calls with the same key lead to one job."""
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is not a kind of job. Choose one of {', '.join(KINDS)}.")
        headers = {} if key is None else {"Idempotency-Key": key}
        with self._client() as client:
            return _document(client.post(f"/api/v1/{kind}", json=dict(body), headers=headers))

    def job(self, job_id: str) -> dict[str, Any]:
        with self._client() as client:
            return _document(client.get(f"/api/v1/jobs/{job_id}"))

    async def job_async(self, job_id: str) -> dict[str, Any]:
        connection = await self.aget_connection(self.tidyberg_conn_id)
        async with httpx.AsyncClient(**_arguments(connection)) as client:
            return _document(await client.get(f"/api/v1/jobs/{job_id}"))

    def cancel(self, job_id: str) -> dict[str, Any]:
        with self._client() as client:
            return _document(client.delete(f"/api/v1/jobs/{job_id}"))

    def health(self, table: str, catalog: str = "default") -> dict[str, Any]:
        """Returns the health of `namespace.table`. A service with one catalog also knows it as "default"."""
        namespace, _, name = table.rpartition(".")
        if not namespace:
            raise ValueError(f"{table!r} has no namespace. Write namespace.table.")
        with self._client() as client:
            return _document(client.get(f"/api/v1/tables/{catalog}/{namespace}/{name}/health"))

    def test_connection(self) -> tuple[bool, str]:
        try:
            with self._client() as client:
                _document(client.get("/api/v1/jobs", params={"limit": 1}))
        except (httpx.HTTPError, TidybergError) as error:
            return False, str(error)
        return True, "The service answers, and it accepts the API key."

    def _client(self) -> httpx.Client:
        return httpx.Client(**_arguments(self.get_connection(self.tidyberg_conn_id)))


def succeeded(job: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the job. Raises TidybergError if it ended otherwise."""
    if job["status"] != "succeeded":
        problem = job.get("error") or {}
        reason = problem.get("message", problem) if isinstance(problem, Mapping) else problem
        raise TidybergError(f"Job {job['job_id']} {job['status']}: {reason or 'the service has no reason'}")
    return dict(job)


def _arguments(connection: Connection) -> dict[str, Any]:
    scheme = connection.schema or "http"
    port = f":{connection.port}" if connection.port else ""
    headers = {"Accept": "application/json"}
    if connection.password:
        headers["Authorization"] = f"Bearer {connection.password}"
    return {"base_url": f"{scheme}://{connection.host}{port}", "headers": headers, "timeout": TIMEOUT_SECONDS}


def _document(answer: httpx.Response) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if "json" in answer.headers.get("content-type", ""):
        document = answer.json()
    if answer.is_error:
        detail = document.get("detail") or answer.reason_phrase
        raise TidybergError(f"The service answered {answer.status_code}: {detail}")
    return document
