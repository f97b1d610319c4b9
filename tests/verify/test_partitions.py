"""Partition values that are not true of an output's rows do not pass."""

from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import (
    BucketTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)

from tests.builders.rewrite_results import SCHEMA, group, long, result, written
from tidyberg.errors import VerificationFailed
from tidyberg.verify.partitions import verify_partitions


def check(source: int, transform: Transform[Any, Any], partition: Any, **changes: Any) -> None:
    """Output 0 of the builders: 50 rows, ids 1 to 50, names from anna to lea with 7 nulls."""
    spec = PartitionSpec(PartitionField(source, 1000, transform, "part"))
    output = written(0, 50, partition=partition, **changes)
    verify_partitions(group(), result(outputs=(output,)), SCHEMA, spec)


NO_NULLS: dict[str, Any] = {"null_value_counts": {1: 0, 2: 0}}
ONE_ID: dict[str, Any] = {"lower_bounds": {1: long(34)}, "upper_bounds": {1: long(34)}}


@pytest.mark.parametrize(
    ("source", "transform", "partition", "changes"),
    [
        (1, TruncateTransform(100), (0,), {}),
        (1, IdentityTransform(), (34,), ONE_ID),
        (1, BucketTransform(16), (3,), ONE_ID),
        (1, BucketTransform(16), (3,), {}),  # bounds cannot tell
        (1, VoidTransform(), (None,), {}),
        (2, IdentityTransform(), (None,), {"null_value_counts": {2: 50}, "lower_bounds": {}, "upper_bounds": {}}),
        (2, IdentityTransform(), ("berta",), NO_NULLS),  # between bounds that may be cut
    ],
)
def test_true_partitions_pass(source: int, transform: Transform[Any, Any], partition: Any, changes: Any) -> None:
    check(source, transform, partition, **changes)


@pytest.mark.parametrize(
    ("source", "transform", "partition", "changes"),
    [
        (1, TruncateTransform(100), (100,), {}),
        (1, TruncateTransform(10), (0,), {}),  # holds rows of several
        (1, IdentityTransform(), (35,), ONE_ID),
        (1, BucketTransform(16), (4,), ONE_ID),
        (1, IdentityTransform(), (None,), ONE_ID),
        (1, VoidTransform(), (1,), {}),
        (2, IdentityTransform(), ("berta",), {}),  # some are null
        (2, IdentityTransform(), ("zoe",), NO_NULLS),
        (2, TruncateTransform(1), ("Z",), NO_NULLS),
        (1, IdentityTransform(), None, ONE_ID),
        (1, IdentityTransform(), (34, 1), ONE_ID),
    ],
)
def test_false_partitions_do_not(source: int, transform: Transform[Any, Any], partition: Any, changes: Any) -> None:
    with pytest.raises(VerificationFailed, match="wrong partitions"):
        check(source, transform, partition, **changes)
