"""The receipt of a commit: one checksum over every file that a snapshot added.

Each encoded output's SHA-256 is taken from the bytes on their way to storage. The receipt is the SHA-256 of one line a
file (name, size, digest) in the order of the names, so it depends neither on groups nor on attempts, and every snapshot
of a job that commits in several has its own. It holds when the files that the snapshot added are, byte for byte and
none more or less, those that the job wrote.

The bytes of copied row groups may pass no worker. What a copied file is known by is its size and its footer, which says
where each column of every row group lies, how long it is and what bounds its values: the digest is that of the footer.
A snapshot with such files has a receipt of another name, which says which of its files are copies.
"""

import hashlib
from collections.abc import Iterable, Sequence

from tidyberg.model.task import WrittenFile

CONTENT_CHECKSUM = "tidyberg.content-checksum"
FOOTER_CHECKSUM = "tidyberg.footer-checksum"
COPIED_FILES = "tidyberg.copied-files"  # ranges of numbers in the order of the names, from 0: "0-3,7"

AddedFile = tuple[str, int, str]  # path, size, digest


def content_checksum(files: Iterable[AddedFile]) -> str:
    # Names, not paths: a table that is moved as it is keeps its receipts.
    lines = sorted(f"{_name(path)} {size} {digest}\n" for path, size, digest in files)
    return "sha256:" + hashlib.sha256("".join(lines).encode()).hexdigest()


def receipt(files: Sequence[WrittenFile]) -> dict[str, str]:
    """Summary properties. Empty if a file has no digest, because a checksum would then promise what nobody checked."""
    if not all(file.digest or file.footer_digest for file in files):
        return {}
    checksum = content_checksum((file.path, file.size, file.digest or file.footer_digest) for file in files)
    copied = {file.path for file in files if not file.digest}
    if not copied:
        return {CONTENT_CHECKSUM: checksum}
    ordered = _in_order([file.path for file in files])
    return {
        FOOTER_CHECKSUM: checksum,
        COPIED_FILES: _ranges([number for number, path in enumerate(ordered) if path in copied]),
    }


def copied_files(paths: Iterable[str], told: str) -> frozenset[str]:
    """The files of a snapshot whose receipt covers only their footers. Raises ValueError if the property is invalid."""
    ordered = _in_order(paths)
    found: set[str] = set()
    for text in told.split(","):
        first, _, last = text.partition("-")
        found.update(ordered[int(first) : int(last or first) + 1])
    return frozenset(found)


def _in_order(paths: Iterable[str]) -> list[str]:
    return sorted(paths, key=_name)


def _ranges(numbers: Sequence[int]) -> str:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
