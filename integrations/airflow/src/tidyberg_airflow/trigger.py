"""Waits for a job of the service in the triggerer, so that the task occupies no worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
from airflow.triggers.base import BaseTrigger, TriggerEvent

from tidyberg_airflow.hook import FINAL, TidybergError, TidybergHook

FAILURES_IN_A_ROW = 10  # a service that restarts is away for a while, and its jobs continue


class TidybergJobTrigger(BaseTrigger):
    def __init__(self, job_id: str, tidyberg_conn_id: str, poll_seconds: float = 10.0) -> None:
        super().__init__()
        self.job_id = job_id
        self.tidyberg_conn_id = tidyberg_conn_id
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Returns how to make this trigger again. It holds no secret: the triggerer looks up the connection."""
        return (
            "tidyberg_airflow.trigger.TidybergJobTrigger",
            {"job_id": self.job_id, "tidyberg_conn_id": self.tidyberg_conn_id, "poll_seconds": self.poll_seconds},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        hook, failures = TidybergHook(self.tidyberg_conn_id), 0
        while True:
            try:
                job = await hook.job_async(self.job_id)
            except (httpx.HTTPError, TidybergError) as error:
                failures += 1
                if failures >= FAILURES_IN_A_ROW:
                    yield TriggerEvent({"job_id": self.job_id, "status": "unknown", "error": str(error)})
                    return
            else:
                failures = 0
                if job["status"] in FINAL:
                    yield TriggerEvent(job)
                    return
            await asyncio.sleep(self.poll_seconds)
