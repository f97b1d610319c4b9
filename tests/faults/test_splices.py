"""Each I/O call of a job that splices goes wrong in turn: committed once or not at all, and nothing is left."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyiceberg.io.pyarrow as iceberg_writer
import pytest

from tests.builders.events_table import options
from tests.builders.splice_tasks import small_files_count
from tests.faults.lab import EVERYTHING, Lab, check
from tests.faults.layer import Layer, Wire, at, choose
from tests.seed import SEED
from tidyberg.execute.kernel.splice import eligibility as judge
from tidyberg.execute.kernel.write.paged_output import PagedOutput
from tidyberg.model.options import VerifyMode

pytestmark = pytest.mark.unwatched  # broken writes leave broken files, which no commit takes


@pytest.fixture(autouse=True)
def everything_is_spliced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings = iceberg_writer._get_parquet_writer_kwargs
    monkeypatch.setattr(
        iceberg_writer, "_get_parquet_writer_kwargs", lambda found: {**settings(found), "use_dictionary": False}
    )
    monkeypatch.setattr(judge, "_dictionaries_from_first_rows", lambda *_: {})
    with small_files_count():
        yield


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("where", ["on a disk", "elsewhere"])
def test_a_job_that_splices_ends_committed_once_or_untouched_whichever_call_fails(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    finish = PagedOutput.finish

    def count(file: PagedOutput, schema: str) -> object:
        written.append(file.place.location)
        return finish(file, schema)

    monkeypatch.setattr(PagedOutput, "finish", count)
    # Full verification would decode everything.
    lab = Lab(tmp_path, 2, options(), has_deletes=False, on_disk=where == "on a disk", verify=VerifyMode.COUNTS)
    recorded = lab.compact()
    assert recorded.result == "committed"
    assert len(written) > 1
    rng = random.Random(SEED)
    faults = list(choose(recorded.layer.calls, None if EVERYTHING else rng))
    # What is done before and after a task is the same as in any job.
    of_tasks = [fault for fault in faults if fault[0].wire is Wire.KERNEL]
    ends: Counter[int] = Counter()
    for call, kind in of_tasks if EVERYTHING else rng.sample(of_tasks, 12):
        lab.restore()
        ends[check(lab, lab.compact(Layer(at(call, kind))), (call, kind))] += 1
    print(f"{ends[1]} committed, {ends[0]} untouched")  # noqa: T201
    assert ends[0]
