"""The requests of assets to tidyberg and its results, with a service and without one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

KINDS = ("compact", "expire", "maintain")


class TidybergError(Exception):
    """The service refused a call, or a job did not succeed."""


@dataclass(frozen=True)
class TableRequest:
    """One job of one table. `options` are those of the REST API."""

    table: str  # namespace.table
    kind: str = "compact"
    catalog: str | None = None
    strategy: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is not a kind of job. Choose one of {', '.join(KINDS)}.")
        if not all(self.table.rpartition(".")[::2]):
            raise ValueError(f"{self.table!r} is not the name of a table. Write namespace.table.")

    @property
    def body(self) -> dict[str, Any]:
        """The body of a request to the service."""
        named = {"table": self.table, "catalog": self.catalog, "strategy": self.strategy, "options": dict(self.options)}
        return {name: value for name, value in named.items() if value}


@dataclass(frozen=True)
class TableJob:
    """A job that succeeded."""

    job_id: str
    outcome: str  # committed, partly, tidy, waiting or refused
    stats: Mapping[str, Any] | None = None
    dollars: float | None = None
    snapshot_id: int | None = None
    url: str | None = None

    @property
    def metadata(self) -> dict[str, dg.MetadataValue]:
        """Returns the metadata that Dagster shows for a materialization."""
        shown = {"outcome": dg.MetadataValue.text(self.outcome), "job_id": dg.MetadataValue.text(self.job_id)}
        for name in ("files_before", "files_after", "bytes_before", "bytes_after"):
            if self.stats is not None and self.stats.get(name) is not None:
                shown[name] = dg.MetadataValue.int(int(self.stats[name]))
        if self.dollars is not None:
            shown["dollars"] = dg.MetadataValue.float(self.dollars)
        if self.snapshot_id is not None:
            # An id of a snapshot has up to 19 digits, which JavaScript would round.
            shown["snapshot_id"] = dg.MetadataValue.text(str(self.snapshot_id))
        if self.url is not None:
            shown["job"] = dg.MetadataValue.url(self.url)
        return shown


@dataclass(frozen=True)
class TableScore:
    """The health of a table."""

    score: int  # from 0 to 100
    reasons: tuple[str, ...]
    files: int
    small_files: int


class JobRunner(dg.ConfigurableResource, ABC):
    """A resource that runs jobs: through a service, or in the process of the step."""

    @abstractmethod
    def run(self, request: TableRequest, key: str) -> TableJob:
        """Runs a job to its end. Raises TidybergError if it fails. Calls with the same key lead to one job."""

    @abstractmethod
    def health(self, table: str, catalog: str | None = None) -> TableScore:
        """Returns the health of a table."""
