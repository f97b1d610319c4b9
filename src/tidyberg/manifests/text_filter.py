"""A Bloom filter with one hash: a bitmap of checksums of texts. It has false positives, but no false negatives."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import numpy.typing as npt

_FEWEST, _MOST = 1 << 13, 1 << 23  # bits; each task carries a filter, so it has at most one megabyte
_BITS_A_TEXT = 16


def build_filter(texts: Sequence[str]) -> bytes:
    size = _FEWEST
    while size < min(_MOST, _BITS_A_TEXT * len(texts)):
        size *= 2
    bits = np.zeros(size, np.bool_)
    bits[_checksums(texts) % size] = True
    return np.packbits(bits).tobytes()


def may_contain(content: bytes, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Returns one flag per text. An empty filter contains nothing."""
    if not content:
        return np.zeros(len(texts), np.bool_)
    bits = np.unpackbits(np.frombuffer(content, np.uint8)).view(np.bool_)
    found: npt.NDArray[np.bool_] = bits[_checksums(texts) % len(bits)]
    return found


def _checksums(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    return np.fromiter((crc32(text.encode(errors="surrogatepass")) for text in texts), np.int64, len(texts))
