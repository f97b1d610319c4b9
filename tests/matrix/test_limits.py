"""Every listed limit of a reader shows on files that tidyberg never touched. A limit that is fixed must be removed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tests.matrix.cells import canonical
from tests.matrix.filters import Filter, filters_of
from tests.matrix.java import JAVA_READERS, JAVA_WRITERS, Asked, Files, fill
from tests.matrix.limits import JAVA_LIMITS, LIMITS, Limit
from tests.matrix.readers import READERS, Arrow, Reader, Unsupported
from tests.matrix.tables import LAYOUTS, NAME, build, data_files, write_file
from tests.matrix.writers import BY_NAME
from tests.oracle.client import JavaCatalog
from tidyberg.testing import Warehouse

DOCS = Path(__file__).parents[2] / "docs" / "correctness.md"


def test_the_documents_list_every_limit_and_no_other() -> None:
    listed = DOCS.read_text().partition("### Limits of readers")[2].partition("\n## ")[0]
    rows = {line for line in listed.splitlines() if line.startswith("|")}
    wanted = {f"| {limit.reader} | {limit.what} | {limit.why} |" for limit in (*LIMITS, *JAVA_LIMITS)}
    assert rows - {"| reader | what goes wrong | because |", "|---|---|---|"} == wanted


@pytest.mark.parametrize("limit", JAVA_LIMITS, ids=lambda limit: f"{limit.reader}: {limit.what}")
def test_java_has_the_limit_on_inputs(warehouse: Warehouse, java: JavaCatalog, tmp_path: Path, limit: Limit) -> None:
    name, shape = limit.shown_by
    if shape is None:
        (writer,) = [one for one in JAVA_WRITERS if one.name == name]
        fill(java, NAME, writer, tmp_path / "spark")
        inputs = data_files(warehouse)
        rows = Arrow(inputs).rows()
    else:
        built = build(warehouse, shape, BY_NAME[name], LAYOUTS[0])
        inputs, rows = list(built.inputs), built.rows
    (reader,) = [one for one in JAVA_READERS if one.name == limit.reader]
    assert limit.covers is not None
    wanted = [one for one in filters_of(rows) if limit.covers(one, rows)]
    asked = Asked(java, reader, Files(NAME, rows.schema.names, inputs))
    # One that shows the limit is enough, so few are asked at a time.
    answers = (answer for some in batched(wanted, 8) for answer in asked.answers(some).values())
    assert any(limit.error in answer if limit.error else answer == "other rows" for answer in answers)


def batched(wanted: Sequence[Filter], size: int) -> Iterator[Sequence[Filter]]:
    return (wanted[first : first + size] for first in range(0, len(wanted), size))


@pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")
@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: f"{limit.reader}: {limit.what}")
def test_the_reader_has_the_limit_on_inputs(tmp_path: Path, limit: Limit) -> None:
    name, shape = limit.shown_by
    assert shape is not None
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
