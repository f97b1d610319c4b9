"""The receipt of a commit: one checksum over the bytes of every file that a snapshot added.

Each output's SHA-256 is taken from the bytes on their way to storage. The receipt is the SHA-256 of one line a file
(name, size, digest) in the order of the names, so it depends neither on groups nor on attempts, and every snapshot of a
job that commits in several has its own. It holds when the files that the snapshot added are, byte for byte and none
more or less, those that the job wrote. A snapshot with copied files, whose bytes may pass no worker, has no receipt.
"""

import hashlib
from collections.abc import Iterable, Sequence

from tidyberg.model.task import WrittenFile

CONTENT_CHECKSUM = "tidyberg.content-checksum"

AddedFile = tuple[str, int, str]  # path, size, digest


def content_checksum(files: Iterable[AddedFile]) -> str:
    # Names, not paths: a table that is moved as it is keeps its receipts.
    lines = sorted(f"{path.rpartition('/')[2]} {size} {digest}\n" for path, size, digest in files)
    return "sha256:" + hashlib.sha256("".join(lines).encode()).hexdigest()


def receipt(files: Sequence[WrittenFile]) -> dict[str, str]:
    """The property of a summary; none where a file's digest is not known, for it would promise what nobody saw."""
    if not all(file.digest for file in files):
        return {}
    return {CONTENT_CHECKSUM: content_checksum((file.path, file.size, file.digest) for file in files)}
