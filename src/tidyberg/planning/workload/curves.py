"""Positions of points on the z-order and Hilbert curves, for simulations of a few thousand rows."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidyberg.model.sort_key import Curve

Coordinates = npt.NDArray[np.uint64]
_ONE = np.uint64(1)


def curve_positions(curve: Curve, points: Sequence[Coordinates], bits: int) -> Coordinates:
    """Returns the position of each point. Coordinates are below 2 ** bits."""
    assert len(points) * bits <= 64
    return _interleave(_transpose(points, bits) if curve is Curve.HILBERT else points, bits)


def _interleave(points: Sequence[Coordinates], bits: int) -> Coordinates:
    found = np.zeros(len(points[0]), np.uint64)
    for bit in range(bits - 1, -1, -1):
        for one in points:
            found = (found << _ONE) | ((one >> np.uint64(bit)) & _ONE)
    return found


def _transpose(points: Sequence[Coordinates], bits: int) -> list[Coordinates]:
    """Skilling's transform: the bits of the results, interleaved, are positions on the Hilbert curve."""
    axes = [one.astype(np.uint64) for one in points]
    for level in range(bits - 1, 0, -1):
        bit = _ONE << np.uint64(level)
        below = bit - _ONE
        for number, axis in enumerate(axes):
            is_set = (axis & bit) != 0
            swapped = np.where(is_set, np.uint64(0), (axes[0] ^ axis) & below)
            axes[0] = np.where(is_set, axes[0] ^ below, axes[0] ^ swapped)
            if number:
                axes[number] = axis ^ swapped
    for number in range(1, len(axes)):
        axes[number] = axes[number] ^ axes[number - 1]
    turn = np.zeros(len(axes[0]), np.uint64)
    for level in range(bits - 1, 0, -1):
        bit = _ONE << np.uint64(level)
        turn = np.where((axes[-1] & bit) != 0, turn ^ (bit - _ONE), turn)
    return [axis ^ turn for axis in axes]
