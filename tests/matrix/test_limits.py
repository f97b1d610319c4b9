"""The limits of readers are limits on files that tidyberg never touched: one that is gone must leave the list."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.matrix.cells import canonical
from tests.matrix.filters import filters_of
from tests.matrix.limits import LIMITS, Limit
from tests.matrix.readers import READERS, Reader, Unsupported
from tests.matrix.tables import write_file
from tests.matrix.writers import BY_NAME

PYTHON_LIMITS = [limit for limit in LIMITS if limit.reader in {kind.name for kind in READERS}]


@pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")
@pytest.mark.parametrize("limit", PYTHON_LIMITS, ids=lambda limit: f"{limit.reader}: {limit.what}")
def test_it_is_one_on_inputs(tmp_path: Path, limit: Limit) -> None:
    name, shape = limit.shown_by
    paths, rows = [], []
    for number, content in enumerate(shape.files()):
        paths.append(tmp_path / f"{number}.parquet")
        rows.append(content)
        write_file(BY_NAME[name], shape, content, paths[-1], {})
    (kind,) = [reader for reader in READERS if reader.name == limit.reader]
    assert shows(limit, kind, [str(path) for path in paths], pa.concat_tables(rows))


def shows(limit: Limit, kind: type[Reader], paths: list[str], truth: pa.Table) -> bool:
    if limit.covers is None:
        try:
            return canonical(kind(paths).rows(), truth.schema) != canonical(truth, truth.schema)
        except Exception as error:  # noqa: BLE001  (whatever a reader raises)
            return bool(limit.error) and limit.error in str(error)
    reader = kind(paths)
    for wanted in filters_of(truth):
        if not limit.covers(wanted, truth):
            continue
        try:
            if reader.found(wanted) != reader.expected(wanted):
                return not limit.error
        except Unsupported:
            continue
        except Exception as error:  # noqa: BLE001
            return bool(limit.error) and limit.error in str(error)
    return False
