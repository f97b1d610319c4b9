"""Combinations of values: all of them, or few in which every value meets every value of one axis."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Combination = Mapping[str, Any]
Axes = Mapping[str, Sequence[Any]]
Allowed = Callable[[Combination], bool]


def full_product(axes: Axes, allowed: Allowed) -> list[Combination]:
    named = (dict(zip(axes, values, strict=True)) for values in product(*axes.values()))
    return [combination for combination in named if allowed(combination)]


def covering(axes: Axes, allowed: Allowed, pivot: str) -> list[Combination]:
    """Every pair of a value of `pivot` and a value of another axis that is allowed at all is in one of them.

    Of other pairs they have as many as so few combinations can. Greedy and deterministic: the next combination is
    always the first of those that add the most pairs with `pivot`, then the most others.
    """
    others = [axis for axis in axes if axis != pivot]
    indexes = list(product(*(range(len(axes[axis])) for axis in others)))
    seen: set[tuple[tuple[int, int], tuple[int, int]]] = set()
    chosen: list[Combination] = []
    for value in axes[pivot]:
        possible = [
            places
            for places in indexes
            if allowed({pivot: value} | {axis: axes[axis][place] for axis, place in zip(others, places, strict=True)})
        ]
        missing = {(axis, place) for places in possible for axis, place in enumerate(places)}
        while missing:
            best = max(possible, key=lambda places: _gain(places, missing, seen))
            missing -= set(enumerate(best))
            seen.update(combinations(enumerate(best), 2))
            chosen.append({pivot: value} | {axis: axes[axis][place] for axis, place in zip(others, best, strict=True)})
    return chosen


def _gain(places: tuple[int, ...], missing: set[Any], seen: set[Any]) -> tuple[int, int]:
    numbered = tuple(enumerate(places))
    return sum(one in missing for one in numbered), sum(pair not in seen for pair in combinations(numbered, 2))
