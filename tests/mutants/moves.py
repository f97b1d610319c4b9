"""Rules of moving files to the current partition spec [I3 I9]: where rows belong, and what may come in between."""

from tests.mutants.mutant import Mutant

MOVES_TESTS = ("tests/moving/test_moves.py",)
TRANSFORMS = ("tests/execute/test_transforms.py",)
VALUES = ("tests/moving/test_partition_values.py::test_outputs_and_inventory_write_partitions_the_same_way[float]",)
PUBLISHING = ("tests/planning/test_publishing.py",)

MOVES = (
    Mutant(
        "a new equality delete of an input's partition would miss the outputs of a move [I3]",
        "commit/conflicts.py",
        "(delete := deletes.of_input(row.partition))",
        "(delete := None)",
        MOVES_TESTS,
    ),
    Mutant(
        "a new equality delete of an output's partition was not meant for the inputs of a move [I3]",
        "commit/conflicts.py",
        "if delete := deletes.of_output(group.output_spec_id, output.partition or ()):",
        "if delete := None:",
        MOVES_TESTS,
    ),
    Mutant(
        "a new global equality delete does not stand in the way of a move",
        "commit/conflicts.py",
        'if kind == "equality" and scope != "global" and sequence_number',
        'if kind == "equality" and sequence_number',
        MOVES_TESTS,
    ),
    Mutant(
        "the day of a time before 1970 is rounded down",
        "execute/kernel/columns/transforms.py",
        "days = numbers // _PER_DAY[kind.unit]",
        "days = np.trunc(numbers / _PER_DAY[kind.unit]).astype(np.int64)",
        TRANSFORMS,
    ),
    Mutant(
        "the hour of a time before 1970 is rounded down",
        "execute/kernel/columns/transforms.py",
        "numbers // (_PER_DAY[kind.unit] // 24)",
        "np.trunc(numbers / (_PER_DAY[kind.unit] // 24)).astype(np.int64)",
        TRANSFORMS,
    ),
    Mutant(
        "negative numbers are truncated downwards",
        "execute/kernel/columns/transforms.py",
        "(numbers.astype(np.int64) % width)",
        "np.fmod(numbers.astype(np.int64), width)",
        TRANSFORMS,
    ),
    Mutant(
        "negative decimals are truncated downwards",
        "execute/kernel/columns/transforms.py",
        "unscaled - unscaled % width",
        "unscaled - (abs(unscaled) % width) * (1 if unscaled > 0 else -1)",
        TRANSFORMS,
    ),
    Mutant(
        "a partition value that is too low for its type is refused",
        "execute/kernel/columns/transforms.py",
        "if must_fit and floored",
        "if not must_fit and floored",
        TRANSFORMS,
    ),
    Mutant(
        "nanoseconds are in the buckets of their microseconds",
        "execute/kernel/columns/transforms.py",
        "numbers = numbers // 1000",
        "numbers = numbers // 1",
        TRANSFORMS,
    ),
    Mutant(
        "the two zeros are two partitions",
        "execute/kernel/write/partitioned.py",
        'pa.scalar(float("nan"), result.type), result).view(bits)',
        'pa.scalar(float("nan"), result.type), pc.add(result, pa.scalar(0.0, result.type))).view(bits)',
        VALUES,
    ),
    Mutant(
        "outputs that are not of the partition they claim do not pass [I9]",
        "verify/partitions.py",
        "if problem is not None:",
        "if False:",
        ("tests/verify/test_partitions.py",),
    ),
    Mutant(
        "a moved group's partitions are verified before the commit [I9]",
        "verify/groups.py",
        "if group.output_spec_id is not None:",
        "if False:",
        ("tests/moving/test_partition_values.py",),
    ),
    Mutant(
        "a branch ahead of the head keeps the branch below it from being compacted",
        "planning/publishing.py",
        "if name != pinned.branch and ahead != head and head in",
        "if ahead == head and head in",
        PUBLISHING,
    ),
    Mutant(
        "a staged snapshot that could not be cherry-picked keeps its parent's branch from being compacted",
        "planning/publishing.py",
        'if staged.operation != "append":',
        "if False:",
        PUBLISHING,
    ),
)
