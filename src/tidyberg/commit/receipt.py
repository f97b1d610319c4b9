"""The receipt of a commit: one checksum over every file that a snapshot added.

The SHA-256 of an encoded output is computed while it is written. The receipt is the SHA-256 of one line per file (name,
size, digest), sorted by name. So it does not depend on groups or attempts. If a job makes several commits, each
snapshot has its own receipt. The receipt matches if the snapshot added exactly the files that the job wrote, byte for
byte.

The bytes of copied row groups may not pass through a worker, so the digest of a copied file is that of its footer. The
footer says where each column of each row group is, how long it is and what its bounds are. A snapshot with copied files
has a receipt with another name, and a property that lists which files are copies.
"""

import hashlib
from collections.abc import Iterable, Sequence

from tidyberg.model.task import WrittenFile

CONTENT_CHECKSUM = "tidyberg.content-checksum"
FOOTER_CHECKSUM = "tidyberg.footer-checksum"
COPIED_FILES = "tidyberg.copied-files"  # positions in the order of names, as ranges from 0: "0-3,7"

AddedFile = tuple[str, int, str]  # path, size, digest


def content_checksum(files: Iterable[AddedFile]) -> str:
    # Names instead of paths, so that receipts stay valid when a table is moved.
    lines = sorted(f"{_name(path)} {size} {digest}\n" for path, size, digest in files)
    return "sha256:" + hashlib.sha256("".join(lines).encode()).hexdigest()


def receipt(files: Sequence[WrittenFile]) -> dict[str, str]:
    """Returns summary properties. They are empty if a file has no digest, because the receipt would be incomplete."""
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


def copied_files(paths: Iterable[str], value: str) -> frozenset[str]:
    """Returns the files whose receipt covers only their footers. Raises ValueError if the property is invalid."""
    ordered = _in_order(paths)
    found: set[str] = set()
    for text in value.split(","):
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
