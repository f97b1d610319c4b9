"""Commits in chunks on a REST catalog with broken answers: each chunk is committed once, or known as open [I7]."""

import pytest
from pyiceberg.table import Table

from tests.builders.control import chunks
from tests.rest.faults import LANDED, LOST, only_job, through
from tests.rest.lab import SCHEMA, RestLab
from tests.rest.proxy import Fault, FaultProxy
from tidyberg.errors import CommitStateUnknown
from tidyberg.model.job import JobStatus
from tidyberg.model.options import PlanOptions, Strategy

pytestmark = pytest.mark.slow

# Two small files a group, one group a commit: three chunks.
ONE_BY_ONE = PlanOptions(strategy=Strategy.FULL, min_input_files=2, commit_every=1)
FINE = Fault(forward=True, status=200)


@pytest.fixture
def table(lab: RestLab) -> Table:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    table = lab.create_table(str(lab.ref), SCHEMA, spec)
    for number, region in enumerate(("asia", "eu", "us")):
        lab.append_files(table, 3, 20, values={"region": region}, seed=10 * number)
    return table


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("name", ["503 after it landed", "409 after it landed", "dropped after it landed"])
def test_a_committed_chunk_is_found_whatever_the_answer_was(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str], name: str, position: int
) -> None:
    proxy.spoil_commits(*[FINE] * position, LANDED[name])
    with through(lab, proxy) as control:
        result = control.compact(lab.ref, ONE_BY_ONE)
    assert (result.outcome, result.groups_committed, result.job.commits) == ("committed", 3, 3)
    assert chunks(table) == [(result.job.job_id, number) for number in range(3)]
    assert lab.rows(table) == before
    assert not lab.missing(table)
    assert not lab.leftovers(table)


def test_a_later_chunk_in_doubt_keeps_its_files_and_leaves_the_earlier_ones(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    proxy.spoil_commits(FINE, always=LOST["503 instead"])
    with through(lab, proxy, retries=1) as control:
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, ONE_BY_ONE)
        job = only_job(control, lab)
        assert (job.commits, job.unresolved, job.error_code) == (1, True, "commit-state-unknown")
        kept = lab.leftovers(table)
        assert any(path.endswith(".parquet") for path in kept)
        proxy.heal()
        (said,) = control.recover()
        assert "had committed" in said
        job = only_job(control, lab)
        assert (job.status, job.unresolved) == (JobStatus.SUCCEEDED, False)
    assert len(chunks(table)) == 1
    assert not lab.leftovers(table)
    assert not lab.missing(table)
    assert lab.rows(table) == before
