"""Estimates what a rewrite costs and saves, in requests, seconds and dollars.

The model counts the requests that this package's S3 client makes by default. A table on local disks, where there are no
requests, has the price that the same job would have on S3.

- GET, encoded groups: each input file and each delete file of a group takes one request up to 16 MB. A larger file
  takes two: one for its footer, and one for the rest as a stream.
- PUT, encoded groups: an output up to 32 MB takes one request. A larger one takes one per part of 32 MB, and two to
  open and close the upload.
- Copied groups: a copy reads only the end of each input, and requests one server-side copy per 512 MB of it. For each
  output it opens and closes the upload, sends a footer, and reads the start and the footer to confirm them. Inputs
  below 5 MB are too short for a server-side copy. They are read, filled up with a piece of a neighbour that is read
  too, and sent in parts of 16 MB.
- Other stores use Arrow's clients. A file takes a GET for the footer and one per 128 MB. An output takes one PUT up to
  10 MB; a larger one takes one per part of 10 MB, and two more. Copies read and write all bytes.
- GET, per job: every manifest that lists a replaced file or a delete is read twice, to plan and to commit. Each output
  is looked at once. The manifest list and the table's metadata take 13 requests, because PyIceberg loads the metadata
  four times with a HEAD and a GET each. The model does not distinguish REST catalogs, which send the metadata.
- PUT, per job: rewritten manifests are merged into one per kind of content, spec and 8 MB
  (`commit.manifest.target-size-bytes`). There is also one manifest of outputs per spec, the manifest list, and the
  metadata. A commit writes two manifests instead of one if some keep files and some do not; the model ignores that.
- Bytes written: the bytes of the input without the rows that are known to be deleted, times the calibrated ratio.
  Copied bytes stay as they are.
- Seconds: the start of a job, then the bytes at the calibrated rate of the mode and a fixed time per file read. This
  time is spread over the cores, but a job takes no less than its longest task. Each task has one core in the model,
  although a task is encoded on several cores if there are fewer tasks than cores.
- Compute: what the engine allocates during these seconds, in GB-seconds.
- Minor compactions read each delete file once, and of data files only the columns of equality deletes; files up to
  16 MB are read whole. They write about two bytes per deleted row, and 300 bytes per deletion vector or 1,500 per
  position delete file. Their input and output files are delete files.
- Sorted groups: requests are those of encoded groups. They have a calibrated rate of their own, because a sort also
  divides rows among outputs and orders them. Groups that do not fit into memory write all rows to scratch space
  and read them again, about twice the bytes of their inputs. Scratch space is local, so it makes no requests. One task
  writes each output, so a sort takes no less than its share of one output.
- Groups that are merged in order: requests are those of encoded groups, and the rate is calibrated separately too.
- Lookups: a query for one value of a sort key saves two GETs and the time to open each file that it need not read, and
  decodes the bytes of these files at 200 MB per core-second.
- Storage: replaced bytes stay until snapshots expire (history.expire.max-snapshot-age-ms, or 5 days).
- Payback: a full scan saves the GETs for files and deletes that are gone and, on one core, the time to open each file.
  All costs, including storage, are divided by that. Smaller outputs also cost less to store; the model ignores that.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from tidyberg.model.manifest import ManifestInfo
from tidyberg.model.merging import merged_manifest_bytes
from tidyberg.model.options import Calibration, PlanOptions, Prices, Resources
from tidyberg.model.plan import Estimate, Mode
from tidyberg.model.sizes import GB, MB
from tidyberg.planning.expiry import MAX_SNAPSHOT_AGE, long_property

# These are the numbers of the S3 client. A test compares them.
WHOLE_BYTES = 16 * MB  # a file up to this size is read with one request
PART_BYTES = 32 * MB
COPY_BYTES = 512 * MB
SMALLEST_COPY = 5 * MB
SENT_BYTES = 16 * MB  # the parts in which files are sent that are too short for a copy
_ARROW_PART_BYTES = 10 * MB
_SCAN_BYTES = 128 * MB  # what a reader requests at once
DEFAULT_RETENTION_MS = 5 * 86_400_000
_MOST_RETENTION_MS = 365 * 86_400_000
_OWN_CLIENT = ("s3", "s3a", "s3n", "file")
_READ_REQUESTS = ("get", "head")
_FREE_REQUESTS = ("delete", "abort")
_VECTOR_BYTES, _DELETE_FILE_BYTES = 300, 1500  # without the positions
_POSITION_BYTES = 2
_SCANNED_PER_CORE_SECOND = 200 * MB  # how fast a query decodes the columns of a file
MONTH_MS = 30 * 86_400_000
METADATA_READS = 13
_NO_DELETES = np.array([], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Work:
    """The work of rewriting a set of groups. Work can be added up, and any sum can be priced."""

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
    longest_seconds: float = 0.0  # the time of the longest task, on one core
    bytes_replaced: int = 0

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
            self.bytes_replaced + other.bytes_replaced,
        )


@dataclass(frozen=True, slots=True)
class Merging:
    """The deletes of some data files that a minor compaction merges."""

    file_sizes: list[int]
    delete_sizes: list[int]
    key_share: float  # the share of a data file that the columns of equality deletes take; 0: there are none
    rows: int  # the most positions that are written
    vectors: bool  # deletion vectors, all in one file; otherwise one delete file per data file


@dataclass(frozen=True, slots=True)
class Pricing:
    prices: Prices
    calibration: Calibration
    resources: Resources
    max_parallelism: int | None
    retention_ms: int
    own_client: bool = True  # it can copy inside the store; Arrow's clients read and write all bytes
    merged_bytes: int = 0  # manifests are merged up to this size when they are rewritten; 0: they are not merged

    def work_of_group(
        self,
        file_sizes: list[int],
        outputs: int,
        expected_bytes: int | None = None,
        delete_sizes: npt.NDArray[np.int64] = _NO_DELETES,
        mode: Mode = "encode",
        tasks: int = 1,
    ) -> Work:
        """Returns the work of one group.

        `expected_bytes` is the size of the rows that stay, if some rows are known to be deleted.
        """
        total = sum(file_sizes)
        speed = self.calibration
        copied = mode == "copy"
        kept = total if expected_bytes is None else expected_bytes
        written = kept if copied else round(kept * speed.output_ratio)
        each = ceil(written / outputs)
        read_sizes = [*file_sizes, *delete_sizes.tolist()]
        gets, puts = self._requests(read_sizes, outputs, each, copied=copied)
        core_seconds = total / _rate(speed, mode) + (len(file_sizes) + len(delete_sizes)) * speed.seconds_per_file
        return Work(
            tasks=tasks,
            input_files=len(file_sizes),
            output_files=outputs,
            bytes_read=total,
            bytes_written=written,
            get_requests=gets + 2 * (tasks - 1),  # the tasks on both sides of a cut open the same file
            put_requests=puts,
            scan_requests_before=_scan_requests(read_sizes),
            scan_requests_after=_scan_requests([each] * outputs),
            core_seconds=core_seconds,
            longest_seconds=core_seconds / tasks,
            bytes_replaced=total,
        )

    def work_of_merge(self, merging: Merging) -> Work:
        """Returns the work of merging the deletes of one group. Its input files are delete files."""
        sizes, deletes, speed = merging.file_sizes, merging.delete_sizes, self.calibration
        opened = sizes if merging.key_share else []
        read_deletes = deletes if sizes else []  # those that no file needs leave unread
        # A small file is read whole.
        read = sum(size if size <= WHOLE_BYTES else round(size * merging.key_share) for size in opened)
        new = len(sizes)
        outputs = min(1, new) if merging.vectors else new
        each = _VECTOR_BYTES if merging.vectors else _DELETE_FILE_BYTES
        written = new * each + _POSITION_BYTES * merging.rows
        read += sum(read_deletes)
        core_seconds = read / speed.encode_bytes_per_core_second
        core_seconds += (len(opened) + len(read_deletes)) * speed.seconds_per_file
        return Work(
            tasks=1,
            input_files=len(deletes),
            output_files=outputs,
            bytes_read=read,
            bytes_written=written if new else 0,
            get_requests=len(read_deletes) + sum(1 if size <= WHOLE_BYTES else 2 for size in opened),
            put_requests=outputs * _put_requests(ceil(written / max(1, outputs)), PART_BYTES),
            scan_requests_before=_scan_requests(deletes),
            # A reader gets the place of a vector from the manifest, and needs no footer.
            scan_requests_after=new if merging.vectors else 2 * new,
            core_seconds=core_seconds,
            longest_seconds=core_seconds,
            bytes_replaced=sum(deletes),
        )

    def _requests(self, read_sizes: list[int], outputs: int, output_size: int, *, copied: bool) -> tuple[int, int]:
        """Returns the GETs and PUTs of a group."""
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
        """Prices the requests and core time of a group. The start and the commit are part of the job's price."""
        return self._estimate(work, work.core_seconds, work.core_seconds / self._cores)

    def price_job(self, work: Work, manifests: Collection[ManifestInfo], specs: int) -> Estimate:
        """Prices all groups together. The commit rewrites `manifests` and adds one for each of `specs` specs."""
        if work.tasks == 0:
            return self._estimate(work, 0.0, 0.0)
        # A job takes at least as long as its longest task, so one more group never makes it cheaper.
        working = max(work.longest_seconds, work.core_seconds / self._cores)
        seconds = self.calibration.seconds_per_job + working
        commit = Work(
            get_requests=2 * len(manifests) + METADATA_READS + work.output_files,
            put_requests=self._manifests_written(manifests) + specs + 2,
        )
        return self._estimate(work + commit, seconds, seconds)

    def saved_by_lookup(self, files: float, size: float) -> float:
        """Returns the dollars that a query saves if it reads so many files and bytes less."""
        saved = files * 2 * self.prices.get_per_1000 / 1000
        seconds = files * self.calibration.seconds_per_file + size / _SCANNED_PER_CORE_SECOND
        return saved + seconds * self._core_second

    def starts_longer_than_it_runs(self, work: Work) -> bool:
        """Returns True if one core does the work in less time than a job needs to start, which is mostly Spark."""
        return work.tasks > 0 and work.core_seconds <= self.calibration.seconds_per_job

    def _manifests_written(self, manifests: Collection[ManifestInfo]) -> int:
        """Returns the number of manifests that a commit writes in place of these."""
        if not self.merged_bytes:
            return len(manifests)
        together: Counter[tuple[bool, int]] = Counter()
        for manifest in manifests:
            together[manifest.holds_deletes, manifest.spec_id] += manifest.length
        # A single manifest may be larger than the limit, and it is still written as one.
        return min(len(manifests), sum(_parts(size, self.merged_bytes) for size in together.values()))

    @property
    def _cores(self) -> int:
        return min(self.resources.cores, self.max_parallelism or self.resources.cores)

    @property
    def _core_second(self) -> float:
        """The price of one core for a second."""
        return self.resources.memory_gb / self.resources.cores * self.prices.compute_per_gb_second

    def _estimate(self, work: Work, seconds: float, allocated_seconds: float) -> Estimate:
        prices = self.prices
        requests = (work.get_requests * prices.get_per_1000 + work.put_requests * prices.put_per_1000) / 1000
        compute = allocated_seconds * self.resources.memory_gb * prices.compute_per_gb_second
        storage = work.bytes_replaced / GB * prices.storage_per_gb_month * self.retention_ms / MONTH_MS
        opens_saved = work.input_files - work.output_files
        saved_per_scan = (work.scan_requests_before - work.scan_requests_after) * prices.get_per_1000 / 1000
        saved_per_scan += opens_saved * self.calibration.seconds_per_file * self._core_second
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
            bytes_saved=work.bytes_replaced - work.bytes_written,
            payback_scans=ceil((requests + compute + storage) / saved_per_scan) if saved_per_scan > 0 else None,
        )


def request_dollars(requests: Mapping[str, int], prices: Prices) -> float:
    """Prices counted requests by kind. Reads are cheap, deletes are free, and all others cost as much as a PUT."""
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
    """Returns the pricing for a table with these properties at this location."""
    scheme = location.partition("://")[0].lower() if "://" in location else "file"
    retained_ms = retention_ms(properties)
    return Pricing(
        prices,
        calibration,
        resources,
        options.max_parallelism,
        retained_ms,
        scheme in _OWN_CLIENT,
        merged_manifest_bytes(properties),
    )


def retention_ms(properties: Mapping[str, str]) -> int:
    """How long replaced files are paid for. A table that never expires its snapshots pays for a year."""
    return min(max(long_property(properties, MAX_SNAPSHOT_AGE, DEFAULT_RETENTION_MS), 0), _MOST_RETENTION_MS)


def _rate(speed: Calibration, mode: Mode) -> float:
    """Returns the bytes that a core rewrites in a second in this mode."""
    rates: dict[Mode, float] = {
        "copy": speed.copy_bytes_per_core_second,
        "sort": speed.sort_bytes_per_core_second,
        "merge": speed.merge_bytes_per_core_second,
    }
    return rates.get(mode, speed.encode_bytes_per_core_second)


def _scan_requests(sizes: list[int]) -> int:
    """Returns the requests of a typical reader, which reads the footer of each file and then the rest."""
    return 2 * len(sizes) + sum(_parts(size, _SCAN_BYTES) - 1 for size in sizes if size > _SCAN_BYTES)


def _put_requests(size: int, part: int) -> int:
    return 1 if size <= part else _parts(size, part) + 2


def _parts(size: int, part: int) -> int:
    return -(-size // part)
