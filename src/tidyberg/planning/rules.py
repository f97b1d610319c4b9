"""The rules of the contract, one function each: when to compact a partition, and how urgent that is."""

FILES_FOR_FULL_SCORE = 100
HOURS_FOR_FULL_SCORE = 24
_MS_PER_HOUR = 3_600_000


def fragment_ratio(data_files: int, delete_files: int) -> float:
    """Returns the number of delete files per data file."""
    return delete_files / max(data_files, 1)


def should_compact(
    data_files: int,
    total_bytes: int,
    delete_files: int,
    *,
    max_file_count_per_partition: int,
    small_file_threshold: int,
    max_delete_ratio: float,
) -> str | None:
    """Returns why a partition is worth compacting (many files, small files or many deletes), or None."""
    if data_files == 0:
        return None
    if data_files > max_file_count_per_partition:
        return "too many files"
    if total_bytes // data_files < small_file_threshold:
        return "small files"
    if fragment_ratio(data_files, delete_files) > max_delete_ratio:
        return "delete files"
    return None


def share_of_rows(share: float, *, exact: bool) -> str:
    if share == 0:
        return "none of the rows"
    if share < 0.01:
        return "less than 1 % of the rows"
    return f"{'about' if exact else 'up to'} {share * 100:.0f} % of the rows"


def score_partition(files: int, small_files: int, fragments: float, hours_since_compaction: float | None) -> float:
    """Scores urgency: 0.3 file count + 0.3 fragment ratio + 0.2 age + 0.2 share of small files.

    The file count has its full weight at 100 files, the age at 24 hours. A partition that was never compacted has the
    full score for its age. The fragment ratio has no upper limit, so many delete files push the score above 1.
    """
    if files == 0:
        return 0.0
    hours = HOURS_FOR_FULL_SCORE if hours_since_compaction is None else max(hours_since_compaction, 0.0)
    return (
        0.3 * min(files / FILES_FOR_FULL_SCORE, 1.0)
        + 0.3 * fragments
        + 0.2 * min(hours / HOURS_FOR_FULL_SCORE, 1.0)
        + 0.2 * small_files / files
    )


def hours_since(moment_ms: int | None, now_ms: int) -> float | None:
    return None if moment_ms is None else (now_ms - moment_ms) / _MS_PER_HOUR
