"""What a rewrite costs and gives back, in requests, seconds and dollars.

The model, with nothing left out on purpose:
- GET: per input file, and per group for each delete file that applies, its footer and one ranged read per 128 MB;
  per job the table's metadata, its manifest list and every manifest that names a replaced file or such a delete.
- PUT: per output up to 10 MB one; above, one per part of 10 MB plus opening and closing the upload (Arrow's S3
  writer). Per job the rewritten manifests, one manifest of outputs per spec, the manifest list, the metadata.
- A copy inside an S3 store reads of each input the end alone, and asks for one copy per input and 512 MB of it; per
  output it opens and closes the upload, sends a footer, and reads the start and the footer to confirm them.
- Bytes written: those of the input less the rows known to be deleted, at the calibrated ratio; copied ones stay as
  they are.
- Seconds: the start of a job, then bytes at the calibrated rate of the group's mode and a fixed time per file read,
  spread over the cores in use. Compute is what the engine has allocated during all of it, in GB-seconds.
- Storage: replaced bytes stay until snapshots expire (history.expire.max-snapshot-age-ms, else 5 days).
- Payback: a full scan saves the GETs of files and deletes that it need not read any more and, on one core, the
  time to open each file. All costs, storage too, are divided by that. Cheaper storage of smaller outputs is not
  counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from tidyberg.errors import BadInput
from tidyberg.model.options import Calibration, PlanOptions, Prices, Resources
from tidyberg.model.plan import Estimate, Mode
from tidyberg.model.sizes import GB, MB

READ_BYTES = 128 * MB
PART_BYTES = 10 * MB
COPY_BYTES = 512 * MB
RETENTION_PROPERTY = "history.expire.max-snapshot-age-ms"
DEFAULT_RETENTION_MS = 5 * 86_400_000
_STORES_THAT_COPY = ("s3://", "s3a://", "s3n://")
_READ_REQUESTS = ("get", "head")
_MONTH_MS = 30 * 86_400_000
_NO_DELETES = np.array([], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Work:
    """What a set of groups asks for; works add up, and any of them can be priced."""

    groups: int = 0
    input_files: int = 0
    output_files: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    get_requests: int = 0
    put_requests: int = 0
    scan_requests_before: int = 0
    scan_requests_after: int = 0
    core_seconds: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.groups + other.groups,
            self.input_files + other.input_files,
            self.output_files + other.output_files,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
            self.get_requests + other.get_requests,
            self.put_requests + other.put_requests,
            self.scan_requests_before + other.scan_requests_before,
            self.scan_requests_after + other.scan_requests_after,
            self.core_seconds + other.core_seconds,
        )


@dataclass(frozen=True, slots=True)
class Pricing:
    prices: Prices
    calibration: Calibration
    resources: Resources
    max_parallelism: int | None
    retention_ms: int
    copies_inside: bool = False  # the table is in a store that copies ranges by itself

    def work_of_group(
        self,
        file_sizes: list[int],
        outputs: int,
        expected_bytes: int | None = None,
        delete_sizes: npt.NDArray[np.int64] = _NO_DELETES,
        mode: Mode = "encode",
    ) -> Work:
        """`expected_bytes` are what the rows that stay take in the input, where some are known to be deleted."""
        total = sum(file_sizes)
        speed = self.calibration
        copied = mode == "copy"
        rate = speed.copy_bytes_per_core_second if copied else speed.encode_bytes_per_core_second
        kept = total if expected_bytes is None else expected_bytes
        written = kept if copied else round(kept * speed.output_ratio)
        each = ceil(written / outputs)
        scan = sum(map(_get_requests, file_sizes)) + int((1 + np.maximum(1, -(-delete_sizes // READ_BYTES))).sum())
        gets, puts = scan, outputs * _put_requests(each)
        if copied and self.copies_inside:
            gets, puts = len(file_sizes) + 2 * outputs, sum(map(_copy_requests, file_sizes)) + 3 * outputs
        return Work(
            groups=1,
            input_files=len(file_sizes),
            output_files=outputs,
            bytes_read=total,
            bytes_written=written,
            get_requests=gets,
            put_requests=puts,
            scan_requests_before=scan,
            scan_requests_after=outputs * _get_requests(each),
            core_seconds=total / rate + (len(file_sizes) + len(delete_sizes)) * speed.seconds_per_file,
        )

    def price_group(self, work: Work) -> Estimate:
        """A group's share: its own requests and core time; the job's start and commit are in the job's price."""
        return self._estimate(work, work.core_seconds, work.core_seconds / self._parallel(None))

    def price_job(self, work: Work, manifests: int, specs: int) -> Estimate:
        """All groups together; `manifests` name replaced files and are written anew, `specs` get a new one each."""
        if work.groups == 0:
            return self._estimate(work, 0.0, 0.0)
        seconds = self.calibration.seconds_per_job + work.core_seconds / self._parallel(work.groups)
        commit = Work(get_requests=manifests + 2, put_requests=manifests + specs + 2)
        return self._estimate(work + commit, seconds, seconds)

    def _parallel(self, groups: int | None) -> int:
        return min(n for n in (self.resources.cores, self.max_parallelism, groups) if n is not None)

    def _estimate(self, work: Work, seconds: float, allocated_seconds: float) -> Estimate:
        prices = self.prices
        requests = (work.get_requests * prices.get_per_1000 + work.put_requests * prices.put_per_1000) / 1000
        compute = allocated_seconds * self.resources.memory_gb * prices.compute_per_gb_second
        storage = work.bytes_read / GB * prices.storage_per_gb_month * self.retention_ms / _MONTH_MS
        opens_saved = work.input_files - work.output_files
        core_second = self.resources.memory_gb / self.resources.cores * prices.compute_per_gb_second
        saved_per_scan = (work.scan_requests_before - work.scan_requests_after) * prices.get_per_1000 / 1000
        saved_per_scan += opens_saved * self.calibration.seconds_per_file * core_second
        return Estimate(
            input_files=work.input_files,
            output_files=work.output_files,
            bytes_read=work.bytes_read,
            bytes_written=work.bytes_written,
            get_requests=work.get_requests,
            put_requests=work.put_requests,
            seconds=seconds,
            request_dollars=requests,
            compute_dollars=compute,
            storage_dollars=storage,
            file_opens_saved=opens_saved,
            bytes_saved=work.bytes_read - work.bytes_written,
            payback_scans=ceil((requests + compute + storage) / saved_per_scan) if saved_per_scan > 0 else None,
        )


def request_dollars(requests: Mapping[str, int], prices: Prices) -> float:
    """Of requests that were counted, by kind: what only reads is cheap, all else is priced like a PUT."""
    reads = sum(number for kind, number in requests.items() if kind in _READ_REQUESTS)
    others = sum(requests.values()) - reads
    return (reads * prices.get_per_1000 + others * prices.put_per_1000) / 1000


def pricing_for(
    options: PlanOptions,
    properties: Mapping[str, str],
    prices: Prices,
    calibration: Calibration,
    resources: Resources,
    location: str = "",
) -> Pricing:
    """For a table with these properties at that location."""
    copies_inside = location.lower().startswith(_STORES_THAT_COPY)
    retention_ms = _retention_ms(properties)
    return Pricing(prices, calibration, resources, options.max_parallelism, retention_ms, copies_inside)


def _retention_ms(properties: Mapping[str, str]) -> int:
    text = properties.get(RETENTION_PROPERTY, str(DEFAULT_RETENTION_MS))
    if not text.strip().isdigit():
        raise BadInput(f"The table's property {RETENTION_PROPERTY} is {text!r}, which is not a number of milliseconds.")
    return int(text)


def _get_requests(size: int) -> int:
    return 1 + max(1, -(-size // READ_BYTES))


def _copy_requests(size: int) -> int:
    return max(1, -(-size // COPY_BYTES))


def _put_requests(size: int) -> int:
    return 1 if size <= PART_BYTES else -(-size // PART_BYTES) + 2
