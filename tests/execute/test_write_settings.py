"""Table properties and overrides become writer settings; bad ones are refused with their name."""

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from tidyberg.errors import BadInput
from tidyberg.execute.tasks.write_settings import leaf_names, write_settings

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=False),
    NestedField(
        3,
        "items",
        ListType(4, StructType(NestedField(5, "price", LongType(), required=False)), element_required=False),
        required=False,
    ),
    NestedField(6, "tags", MapType(7, StringType(), 8, StringType(), value_required=False), required=False),
)
MB = 1024 * 1024


def test_defaults_are_icebergs() -> None:
    settings = write_settings(SCHEMA, {}, {})
    assert (settings.compression, settings.compression_level) == ("zstd", 3)
    assert settings.row_group_bytes == 128 * MB
    assert (settings.page_bytes, settings.page_rows, settings.dictionary_bytes) == (MB, 20_000, 2 * MB)
    assert settings.metrics_modes == dict.fromkeys((1, 2, 5, 7, 8), "truncate(16)")


def test_properties_and_then_overrides_count() -> None:
    properties = {
        "write.parquet.compression-codec": "GZIP",
        "write.parquet.compression-level": "9",
        "write.parquet.row-group-size-bytes": "1048576",
        "write.parquet.row-group-limit": "500",
        "write.parquet.bloom-filter-enabled.column.name": "true",
        "write.parquet.bloom-filter-fpp.column.name": "0.05",
        "write.parquet.bloom-filter-enabled.column.id": "false",
        "write.parquet.bloom-filter-enabled.column.gone": "true",
    }
    settings = write_settings(SCHEMA, properties, {})
    assert (settings.compression, settings.compression_level) == ("gzip", 9)
    assert (settings.row_group_bytes, settings.row_group_rows) == (MB, 500)
    assert settings.bloom_filter_columns == ((2, 0.05),)
    overrides = {"compression_codec": "zstd", "compression-level": "19", "page-size-bytes": "64KB"}
    settings = write_settings(SCHEMA, properties, overrides)
    assert (settings.compression, settings.compression_level, settings.page_bytes) == ("zstd", 19, 65_536)
    assert settings.row_group_bytes == MB


def test_a_level_means_nothing_to_codecs_without_one() -> None:
    properties = {"write.parquet.compression-codec": "snappy", "write.parquet.compression-level": "3"}
    assert write_settings(SCHEMA, properties, {}).compression_level is None


def test_metrics_modes_by_column_and_default() -> None:
    properties = {
        "write.metadata.metrics.default": "counts",
        "write.metadata.metrics.column.name": "Truncate(4)",
        "write.metadata.metrics.column.items.element.price": "none",
        "write.metadata.metrics.column.gone": "full",
    }
    modes = write_settings(SCHEMA, properties, {}).metrics_modes
    assert modes == {1: "counts", 2: "truncate(4)", 5: "none", 7: "counts", 8: "counts"}


def test_only_the_first_columns_of_wide_tables_get_metrics_by_default() -> None:
    wide = Schema(*(NestedField(i, f"c{i}", LongType(), required=False) for i in range(1, 151)))
    modes = write_settings(wide, {"write.metadata.metrics.column.c150": "full"}, {}).metrics_modes
    assert [i for i, mode in modes.items() if mode != "none"] == [*range(1, 101), 150]
    modes = write_settings(wide, {"write.metadata.metrics.max-inferred-column-defaults": "2"}, {}).metrics_modes
    assert [i for i, mode in modes.items() if mode != "none"] == [1, 2]
    modes = write_settings(wide, {"write.metadata.metrics.default": "full"}, {}).metrics_modes
    assert set(modes.values()) == {"full"}


@pytest.mark.parametrize(
    ("properties", "overrides", "reported"),
    [
        ({"write.parquet.compression-codec": "zip"}, {}, "compression-codec: 'zip'"),
        ({"write.parquet.compression-level": "high"}, {}, "compression-level: 'high'"),
        ({"write.parquet.compression-level": "99"}, {}, "takes -7 to 22"),
        ({"write.parquet.row-group-size-bytes": "-1"}, {}, "row-group-size-bytes"),
        ({"write.parquet.page-row-limit": "0"}, {}, "page-row-limit"),
        ({"write.parquet.page-row-limit": "²"}, {}, "page-row-limit"),
        ({"write.parquet.page-row-limit": str(2**63)}, {}, "page-row-limit"),
        ({"write.parquet.dict-size-bytes": str(2**63)}, {}, "dict-size-bytes"),
        ({"write.parquet.bloom-filter-enabled.column.id": "true",
          "write.parquet.bloom-filter-fpp.column.id": "2"}, {}, "bloom-filter-fpp.column.id"),
        ({"write.metadata.metrics.default": "some"}, {}, "metrics.default: 'some'"),
        ({"write.metadata.metrics.column.id": "truncate(0)"}, {}, "metrics.column.id"),
        ({"write.metadata.metrics.max-inferred-column-defaults": "x"}, {}, "max-inferred-column-defaults"),
        ({}, {"compresion": "zstd"}, "'compresion' is not a Parquet setting"),
    ],
)  # fmt: skip
def test_bad_values_are_refused_by_name(properties: dict[str, str], overrides: dict[str, str], reported: str) -> None:
    with pytest.raises(BadInput) as raised:
        write_settings(SCHEMA, properties, overrides)
    assert reported in str(raised.value)


def test_largest_numbers_are_not_rounded_beyond_64_bits() -> None:
    largest = str(2**63 - 1)
    settings = write_settings(SCHEMA, {}, {"dict-size-bytes": largest, "page-row-limit": largest})
    assert settings.dictionary_bytes == settings.page_rows == 2**63 - 1


def test_leaf_names_are_icebergs_full_names() -> None:
    assert leaf_names(SCHEMA) == {"id": 1, "name": 2, "items.element.price": 5, "tags.key": 7, "tags.value": 8}
    assert all(SCHEMA.find_column_name(field_id) == name for name, field_id in leaf_names(SCHEMA).items())
