"""Copies the files of one task: looks at the footers, proves, assembles, writes, confirms."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.lineage import LineageFacts, with_lineage
from tidyberg.execute.kernel.columns.metrics import FactCollector
from tidyberg.execute.kernel.columns.project import Leaf, Selection, leaves
from tidyberg.execute.kernel.copy.assemble import assemble
from tidyberg.execute.kernel.copy.confirm import confirm, row_groups
from tidyberg.execute.kernel.copy.proof import prove, refuse_by_task
from tidyberg.execute.kernel.read.source import Source, open_source, storage_reader
from tidyberg.model.task import ColumnFacts, Task, WrittenFile
from tidyberg.storage.assembly import Moved
from tidyberg.storage.prefetch import run_ahead
from tidyberg.storage.storage import Storage, remove_outputs
from tidyberg.storage.write_assembly import write_assembly


@dataclass(frozen=True)
class Copied:
    outputs: tuple[WrittenFile, ...]
    rows: int
    input_facts: dict[int, ColumnFacts]
    output_facts: dict[int, ColumnFacts]
    input_row_groups: tuple[tuple[int, int], ...]
    output_row_groups: tuple[tuple[int, int], ...]
    moved: Moved


def copy_files(task: Task, attempt: int, storage: Storage, should_stop: Callable[[], bool]) -> Copied:
    """Raises CannotCopy, before anything is written, when the inputs cannot be shown to be safe to copy."""
    refuse_by_task(task)
    sources = list(run_ahead(partial(open_source, read_range=storage_reader(storage)), task.inputs))
    common = prove(task, sources)
    planned = assemble(task, attempt, sources, common)
    assembly = planned.assembly
    moved = write_assembly(assembly, storage, should_stop)
    schema = pa.ipc.read_schema(pa.BufferReader(task.arrow_schema))
    columns = len(leaves(schema))
    try:
        footers = confirm(assembly, sources, columns, storage)
    except BaseException:
        remove_outputs([storage.place(file.path) for file in assembly.files], storage)
        raise
    inputs = [source.arrow_footer for source in sources]
    return Copied(
        outputs=planned.written,
        rows=sum(source.footer.rows for source in sources),
        input_facts=_facts(inputs, leaves(schema)) | (_inherited_facts(sources) if task.lineage else {}),
        output_facts=_facts(footers, leaves(with_lineage(schema) if task.lineage else schema)),
        input_row_groups=row_groups(inputs, columns),
        output_row_groups=row_groups(footers, columns),
        moved=moved,
    )


def _facts(footers: list[pq.FileMetaData], all_leaves: list[Leaf]) -> dict[int, ColumnFacts]:
    """Of files whose columns are those of the table."""
    collector = FactCollector(all_leaves, {}, own=False)
    for footer in footers:
        file_leaves = leaves(footer.schema.to_arrow_schema())
        collector.add(footer, _all_of(file_leaves), file_leaves)
    return collector.facts()


def _inherited_facts(sources: list[Source]) -> dict[int, ColumnFacts]:
    lineage = LineageFacts()
    for source in sources:
        file_leaves = leaves(source.arrow_footer.schema.to_arrow_schema())
        lineage.add(source.arrow_footer, _all_of(file_leaves), file_leaves, source.input)
    return lineage.facts()


def _all_of(file_leaves: list[Leaf]) -> Selection:
    return Selection(source_of={leaf.field_id: at for at, leaf in enumerate(file_leaves) if leaf.field_id is not None})
