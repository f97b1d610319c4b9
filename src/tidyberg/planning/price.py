"""What a rewrite costs and gives back, in requests, seconds and dollars.

The model. Requests are those of this package's S3 client as it is by default; a table on local disks, where there are
none, has the price that the same job would have on S3:
- GET: per input file, and per group for each delete file that applies, one up to 16 MB, above it two: its footer, and
  the rest as one stream.
- PUT: per output up to 32 MB one; above, one per part of 32 MB plus opening and closing the upload.
- A copy reads of each input the end alone, and asks for one copy per input and 512 MB of it; per output it opens and
  closes the upload, sends a footer, and reads the start and the footer to confirm them. Inputs below 5 MB are too short
  for a copy: they are read, filled up with a piece of a neighbour that is read too, and sent in parts of 16 MB.
- Other stores (Arrow's clients): a GET for the footer and one per 128 MB, a PUT up to 10 MB, above it one per part of
  10 MB and two more. Copies read and write all bytes.
- Per job, GET: the manifests that name a replaced file or a delete, once to plan and once to commit; a look at each
  output; 13 for the manifest list and for the table's metadata, which PyIceberg loads four times by a HEAD and a GET
  each (REST catalogs send it themselves: that is not told apart). PUT: the rewritten manifests, which
  are merged into one per kind of content, spec and 8 MB (`commit.manifest.target-size-bytes`), or two where some keep
  files and some do not, which is not told apart; one manifest of outputs per spec, the manifest list, the metadata.
- Bytes written: those of the input less the rows known to be deleted, at the calibrated ratio; copied ones stay as
  they are.
- Seconds, as if each task had one core, though where there are fewer tasks than cores each is encoded on several:
  the start of a job, then bytes at the calibrated rate of the group's mode and a fixed time per file read, spread
  over the cores, but no less than the longest task takes on one. Compute is what the engine has allocated during all
  of it, in GB-seconds.
- Storage: replaced bytes stay until snapshots expire (history.expire.max-snapshot-age-ms, else 5 days).
- Payback: a full scan saves the GETs of files and deletes that it need not read any more and, on one core, the
  time to open each file. All costs, storage too, are divided by that. Cheaper storage of smaller outputs is not
  counted.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from tidyberg.errors import BadInput
from tidyberg.model.manifest import ManifestInfo
from tidyberg.model.merging import merged_manifest_bytes
from tidyberg.model.options import Calibration, PlanOptions, Prices, Resources
from tidyberg.model.plan import Estimate, Mode
from tidyberg.model.sizes import GB, MB

# As the S3 client does it; a test compares them.
WHOLE_BYTES = 16 * MB  # a file up to this is read by one request
PART_BYTES = 32 * MB
COPY_BYTES = 512 * MB
SMALLEST_COPY = 5 * MB
SENT_BYTES = 16 * MB  # of what is too short for a copy
_ARROW_PART_BYTES = 10 * MB
_SCAN_BYTES = 128 * MB  # what a reader asks for at once
RETENTION_PROPERTY = "history.expire.max-snapshot-age-ms"
DEFAULT_RETENTION_MS = 5 * 86_400_000
_OWN_CLIENT = ("s3", "s3a", "s3n", "file")
_READ_REQUESTS = ("get", "head")
_FREE_REQUESTS = ("delete", "abort")
_MONTH_MS = 30 * 86_400_000
_METADATA_READS = 13
_NO_DELETES = np.array([], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Work:
    """What a set of groups asks for; works add up, and any of them can be priced."""

    tasks: int = 0
    input_files: int = 0
    output_files: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    get_requests: int = 0
    put_requests: int = 0
    scan_requests_before: int = 0
    scan_requests_after: int = 0
    core_seconds: float = 0.0
    longest_seconds: float = 0.0  # of one task, on its core

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.tasks + other.tasks,
            self.input_files + other.input_files,
            self.output_files + other.output_files,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
            self.get_requests + other.get_requests,
            self.put_requests + other.put_requests,
            self.scan_requests_before + other.scan_requests_before,
            self.scan_requests_after + other.scan_requests_after,
            self.core_seconds + other.core_seconds,
            max(self.longest_seconds, other.longest_seconds),
        )


@dataclass(frozen=True, slots=True)
class Pricing:
    prices: Prices
    calibration: Calibration
    resources: Resources
    max_parallelism: int | None
    retention_ms: int
    own_client: bool = True  # which copies inside the store; else Arrow's does the work
    merged_bytes: int = 0  # of manifests that are written anew as one; 0: each by itself

    def work_of_group(
        self,
        file_sizes: list[int],
        outputs: int,
        expected_bytes: int | None = None,
        delete_sizes: npt.NDArray[np.int64] = _NO_DELETES,
        mode: Mode = "encode",
        tasks: int = 1,
    ) -> Work:
        """`expected_bytes` are what the rows that stay take in the input, where some are known to be deleted."""
        total = sum(file_sizes)
        speed = self.calibration
        copied = mode == "copy"
        rate = speed.copy_bytes_per_core_second if copied else speed.encode_bytes_per_core_second
        kept = total if expected_bytes is None else expected_bytes
        written = kept if copied else round(kept * speed.output_ratio)
        each = ceil(written / outputs)
        read_sizes = [*file_sizes, *delete_sizes.tolist()]
        gets, puts = self._requests(read_sizes, outputs, each, copied=copied)
        core_seconds = total / rate + (len(file_sizes) + len(delete_sizes)) * speed.seconds_per_file
        return Work(
            tasks=tasks,
            input_files=len(file_sizes),
            output_files=outputs,
            bytes_read=total,
            bytes_written=written,
            get_requests=gets + 2 * (tasks - 1),  # tasks on both sides of a cut open the file
            put_requests=puts,
            scan_requests_before=_scan_requests(read_sizes),
            scan_requests_after=_scan_requests([each] * outputs),
            core_seconds=core_seconds,
            longest_seconds=core_seconds / tasks,
        )

    def _requests(self, read_sizes: list[int], outputs: int, output_size: int, *, copied: bool) -> tuple[int, int]:
        """GETs and PUTs of a group."""
        files = len(read_sizes)
        if not self.own_client:
            return _scan_requests(read_sizes), outputs * _put_requests(output_size, _ARROW_PART_BYTES)
        if not copied:
            large = sum(size > WHOLE_BYTES for size in read_sizes)
            return files + large, outputs * _put_requests(output_size, PART_BYTES)
        short = [size for size in read_sizes if size < SMALLEST_COPY]
        if len(short) == files:
            return files + len(short) + outputs, outputs * _put_requests(output_size, PART_BYTES)
        copies = sum(_parts(size, COPY_BYTES) for size in read_sizes if size >= SMALLEST_COPY)
        runs = min(len(short), files - len(short))
        sent = max(runs, _parts(sum(short), SENT_BYTES))
        return files + len(short) + runs + 2 * outputs, copies + sent + 3 * outputs

    def price_group(self, work: Work) -> Estimate:
        """A group's share: its own requests and core time; the job's start and commit are in the job's price."""
        return self._estimate(work, work.core_seconds, work.core_seconds / self._cores)

    def price_job(self, work: Work, manifests: Collection[ManifestInfo], specs: int) -> Estimate:
        """All groups together; `manifests` name replaced files and are written anew, `specs` get a new one each."""
        if work.tasks == 0:
            return self._estimate(work, 0.0, 0.0)
        # No sooner than its longest task: so a group more never makes a job cheaper.
        working = max(work.longest_seconds, work.core_seconds / self._cores)
        seconds = self.calibration.seconds_per_job + working
        commit = Work(
            get_requests=2 * len(manifests) + _METADATA_READS + work.output_files,
            put_requests=self._rewritten(manifests) + specs + 2,
        )
        return self._estimate(work + commit, seconds, seconds)

    def starts_longer_than_it_runs(self, work: Work) -> bool:
        """Whether one core does all of it in the time that jobs take beside rewriting, mostly to start Spark."""
        return work.tasks > 0 and work.core_seconds <= self.calibration.seconds_per_job

    def _rewritten(self, manifests: Collection[ManifestInfo]) -> int:
        """How many manifests a commit writes in place of these."""
        if not self.merged_bytes:
            return len(manifests)
        together: Counter[tuple[bool, int]] = Counter()
        for manifest in manifests:
            together[manifest.holds_deletes, manifest.spec_id] += manifest.length
        # Not one for each: a manifest may be larger than the limit by itself.
        return min(len(manifests), sum(_parts(size, self.merged_bytes) for size in together.values()))

    @property
    def _cores(self) -> int:
        return min(self.resources.cores, self.max_parallelism or self.resources.cores)

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
    """Of requests that were counted, by kind: what reads is cheap, what removes is free, all else is like a PUT."""
    reads = sum(number for kind, number in requests.items() if kind in _READ_REQUESTS)
    others = sum(number for kind, number in requests.items() if kind not in _READ_REQUESTS + _FREE_REQUESTS)
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
    scheme = location.partition("://")[0].lower() if "://" in location else "file"
    retention_ms = _retention_ms(properties)
    return Pricing(
        prices,
        calibration,
        resources,
        options.max_parallelism,
        retention_ms,
        scheme in _OWN_CLIENT,
        merged_manifest_bytes(properties),
    )


def _retention_ms(properties: Mapping[str, str]) -> int:
    text = properties.get(RETENTION_PROPERTY, str(DEFAULT_RETENTION_MS))
    if not text.strip().isdigit():
        raise BadInput(f"The table's property {RETENTION_PROPERTY} is {text!r}, which is not a number of milliseconds.")
    return int(text)


def _scan_requests(sizes: list[int]) -> int:
    """Of a reader that is not known: of each file the footer, then the rest."""
    return 2 * len(sizes) + sum(_parts(size, _SCAN_BYTES) - 1 for size in sizes if size > _SCAN_BYTES)


def _put_requests(size: int, part: int) -> int:
    return 1 if size <= part else _parts(size, part) + 2


def _parts(size: int, part: int) -> int:
    return -(-size // part)
