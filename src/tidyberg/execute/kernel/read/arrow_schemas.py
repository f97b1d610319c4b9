"""Removes the Arrow schema from a footer that makes Arrow read columns as dictionaries."""

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.parquet.fields import FileField, changed
from tidyberg.parquet.footer import ENDING, MAGIC, as_ending, footer_length
from tidyberg.parquet.thrift import read_struct

_ARROW_SCHEMA = b"ARROW:schema"


def without_dictionaries(footer: pq.FileMetaData) -> pq.FileMetaData:
    """Returns a footer for plain values: the same one, unless the writer stored an Arrow schema with dictionaries.

    Arrow follows the stored schema whatever the encoding, and has no option to ignore it.
    """
    if _ARROW_SCHEMA not in (footer.metadata or {}):
        return footer
    if not any(pa.types.is_dictionary(leaf.type) for leaf in leaves(footer.schema.to_arrow_schema())):
        return footer
    sink = pa.BufferOutputStream()
    footer.write_metadata_file(sink)
    content = sink.getvalue().to_pybytes()
    start = len(content) - ENDING - footer_length(content, len(content))
    struct, _ = read_struct(content[start:-ENDING])
    return pq.read_metadata(pa.BufferReader(MAGIC + as_ending(changed(struct, {FileField.KEY_VALUES: None}))))
