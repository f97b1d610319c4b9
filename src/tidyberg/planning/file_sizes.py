"""Resolves the file sizes of a plan: from the options, then the table's properties, then the defaults."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidyberg.errors import BadInput
from tidyberg.model.options import PlanOptions
from tidyberg.model.sizes import MB, format_size

TARGET_PROPERTY = "write.target-file-size-bytes"
DEFAULT_TARGET = 512 * MB
MIN_FILE_RATIO = 0.75
MAX_FILE_RATIO = 1.8
MAX_GROUP_RATIO = 2


@dataclass(frozen=True, slots=True)
class FileSizes:
    """Sizes in bytes. A file below `small` is small. A file within [`minimum`, `maximum`] has the right size."""

    target: int
    minimum: int
    maximum: int
    group_limit: int  # the most that a group of several files holds
    small: int


def resolve_sizes(options: PlanOptions, properties: Mapping[str, str]) -> FileSizes:
    target = options.target_file_size or max(_target_of_table(properties), options.min_target_file_size)
    minimum = options.min_file_size or max(1, int(target * MIN_FILE_RATIO))
    maximum = options.max_file_size or int(target * MAX_FILE_RATIO)
    if minimum > target:
        raise BadInput(
            f"min_file_size ({format_size(minimum)}) is above the target file size ({format_size(target)}).",
            hint="Choose sizes with min_file_size <= target_file_size <= max_file_size.",
        )
    if maximum < target:
        raise BadInput(
            f"max_file_size ({format_size(maximum)}) is below the target file size ({format_size(target)}).",
            hint="Choose sizes with min_file_size <= target_file_size <= max_file_size.",
        )
    group_limit = MAX_GROUP_RATIO * target
    return FileSizes(
        target=target,
        minimum=minimum,
        maximum=maximum,
        group_limit=min(options.max_group_size or group_limit, group_limit),
        # A file that has reached the minimum is not small, however high the threshold is set.
        small=min(options.small_file_threshold, minimum),
    )


def _target_of_table(properties: Mapping[str, str]) -> int:
    text = properties.get(TARGET_PROPERTY)
    if text is None:
        return DEFAULT_TARGET
    if not text.strip().isdecimal() or int(text) < 1:
        raise BadInput(
            f"The table's property {TARGET_PROPERTY} is {text!r}, which is not a number of bytes.",
            hint="Correct the property, or pass target_file_size.",
        )
    return int(text)
