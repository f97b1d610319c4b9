"""Converts a table's write properties and a job's overrides to the settings of the writer."""

import re
from collections.abc import Mapping

from pyiceberg.schema import Schema
from pyiceberg.types import ListType, MapType, NestedField, StructType

from tidyberg.errors import BadInput
from tidyberg.execute.kernel.columns.lineage import LAST_UPDATED_NAME, ROW_ID_NAME
from tidyberg.execute.kernel.columns.project import LAST_UPDATED, ROW_ID
from tidyberg.model.sizes import LARGEST, parse_size
from tidyberg.model.task import WriteSettings
from tidyberg.parquet.codecs import CODEC_IDS

_PARQUET = "write.parquet."
_METRICS = "write.metadata.metrics."
_CODECS = {**{codec: codec for codec in CODEC_IDS}, "lz4_raw": "lz4", "none": "uncompressed"}
_LEVELS = {"zstd": range(-7, 23), "gzip": range(1, 10), "brotli": range(12)}
# The default of Iceberg's Java writers. Arrow's default, 1, is hardly faster, and rewritten files would grow.
_DEFAULT_LEVEL = {"zstd": 3}
_MODE = re.compile(r"none|counts|full|truncate\(([1-9]\d*)\)")
_BLOOM_ENABLED = "bloom-filter-enabled.column."
_BLOOM_PROBABILITY = "bloom-filter-fpp.column."
_MOST_DIGITS = len(str(LARGEST))
_OVERRIDES = ("compression-codec", "compression-level", "row-group-size-bytes", "row-group-limit",
              "page-size-bytes", "page-row-limit", "dict-size-bytes")  # fmt: skip


def write_settings(
    schema: Schema, properties: Mapping[str, str], overrides: Mapping[str, str], *, lineage: bool = False
) -> WriteSettings:
    """Return the writer's settings. `overrides` are `write.parquet.*` properties without the prefix."""
    parquet = {name.removeprefix(_PARQUET): value for name, value in properties.items() if name.startswith(_PARQUET)}
    parquet |= _checked_overrides(overrides)
    codec = _codec(parquet)
    return WriteSettings(
        compression=codec,
        compression_level=_level(parquet, codec),
        row_group_bytes=_size(parquet, "row-group-size-bytes", "128MB"),
        row_group_rows=_whole_number(parquet, "row-group-limit", "1048576"),
        page_bytes=_size(parquet, "page-size-bytes", "1MB"),
        page_rows=_whole_number(parquet, "page-row-limit", "20000"),
        dictionary_bytes=_size(parquet, "dict-size-bytes", "2MB"),
        bloom_filter_columns=_bloom_filters(parquet, schema),
        metrics_modes=_metrics_modes(schema, properties, lineage),
    )


def _checked_overrides(overrides: Mapping[str, str]) -> dict[str, str]:
    checked = {}
    for name, value in overrides.items():
        plain = name.removeprefix(_PARQUET)
        if not plain.startswith((_BLOOM_ENABLED, _BLOOM_PROBABILITY)):
            plain = plain.replace("_", "-")
            if plain not in _OVERRIDES:
                raise BadInput(f"{name!r} is not a Parquet setting.", hint=f"Choose one of {', '.join(_OVERRIDES)}.")
        checked[plain] = str(value)
    return checked


def _codec(parquet: Mapping[str, str]) -> str:
    text = parquet.get("compression-codec", "zstd").strip().lower()
    if text not in _CODECS:
        raise BadInput(
            f"{_PARQUET}compression-codec: {text!r} is not a codec.",
            hint=f"Choose one of {', '.join(_CODECS)}.",
        )
    return _CODECS[text]


def _level(parquet: Mapping[str, str], codec: str) -> int | None:
    if codec not in _LEVELS:
        return None
    text = parquet.get("compression-level")
    if text is None:
        return _DEFAULT_LEVEL.get(codec)
    levels = _LEVELS[codec]
    try:
        level = int(text)
    except ValueError:
        level = levels.stop
    if level not in levels:
        raise BadInput(
            f"{_PARQUET}compression-level: {text!r} is not a level of {codec}.",
            hint=f"It takes {levels.start} to {levels.stop - 1}.",
        )
    return level


def _size(parquet: Mapping[str, str], name: str, default: str) -> int:
    try:
        return parse_size(parquet.get(name, default))
    except BadInput as error:
        raise BadInput(f"{_PARQUET}{name}: {error.message}", hint=error.hint) from None


def _whole_number(parquet: Mapping[str, str], name: str, default: str) -> int:
    text = parquet.get(name, default).strip()
    if not text.isdecimal() or len(text) > _MOST_DIGITS or not 1 <= int(text) <= LARGEST:
        raise BadInput(f"{_PARQUET}{name}: {text[:40]!r} is not a whole number from 1 to {LARGEST}.")
    return int(text)


def _bloom_filters(parquet: Mapping[str, str], schema: Schema) -> tuple[tuple[int, float], ...]:
    """Return the columns with bloom filters. Dropped columns and nested types have none."""
    found = []
    names = leaf_names(schema)
    for property_name, value in parquet.items():
        if not property_name.startswith(_BLOOM_ENABLED) or value.strip().lower() != "true":
            continue
        column = property_name.removeprefix(_BLOOM_ENABLED)
        text = parquet.get(f"{_BLOOM_PROBABILITY}{column}", "0.01")
        try:
            probability = float(text)
        except ValueError:
            probability = 0.0
        if not 0.0 < probability < 1.0:
            raise BadInput(f"{_PARQUET}{_BLOOM_PROBABILITY}{column}: {text!r} is not between 0 and 1.")
        if column in names:
            found.append((names[column], probability))
    return tuple(sorted(found))


def _metrics_modes(schema: Schema, properties: Mapping[str, str], lineage: bool) -> dict[int, str]:
    names = leaf_names(schema)
    if lineage:
        names |= {ROW_ID_NAME: ROW_ID, LAST_UPDATED_NAME: LAST_UPDATED}
    default = properties.get(f"{_METRICS}default")
    modes = dict.fromkeys(names.values(), _mode(f"{_METRICS}default", default or "truncate(16)"))
    if default is None:
        name = f"{_METRICS}max-inferred-column-defaults"
        text = properties.get(name, "100").strip()
        if not text.isdigit():
            raise BadInput(f"{name}: {text!r} is not a whole number.")
        for field_id in list(modes)[int(text) :]:
            modes[field_id] = "none"
    prefix = f"{_METRICS}column."
    for name, value in properties.items():
        column = name.removeprefix(prefix)
        if name.startswith(prefix) and column in names:
            modes[names[column]] = _mode(name, value)
    return modes


def _mode(name: str, text: str) -> str:
    mode = text.strip().lower()
    if _MODE.fullmatch(mode) is None:
        raise BadInput(f"{name}: {text!r} is not a metrics mode.", hint="Use none, counts, full or truncate(N).")
    return mode


def leaf_names(schema: Schema) -> dict[str, int]:
    """Return the full names of primitive columns, such as `items.element.price`, and their ids, in schema order."""
    names: dict[str, int] = {}
    for column in schema.fields:
        _collect_names(column, column.name, names)
    return names


def _collect_names(column: NestedField, name: str, names: dict[str, int]) -> None:
    kind = column.field_type
    if isinstance(kind, StructType):
        for child in kind.fields:
            _collect_names(child, f"{name}.{child.name}", names)
    elif isinstance(kind, ListType):
        _collect_names(kind.element_field, f"{name}.element", names)
    elif isinstance(kind, MapType):
        _collect_names(kind.key_field, f"{name}.key", names)
        _collect_names(kind.value_field, f"{name}.value", names)
    else:
        names[name] = column.field_id
