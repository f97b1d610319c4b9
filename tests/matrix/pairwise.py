"""Combinations of values: all of them, or a small set that covers every allowed pair."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Combination = Mapping[str, Any]
Axes = Mapping[str, Sequence[Any]]
Allowed = Callable[[Combination], bool]
_Place = tuple[int, int]  # an axis, and a value on it
_Pair = tuple[_Place, _Place]


def full_product(axes: Axes, allowed: Allowed) -> list[Combination]:
    named = (dict(zip(axes, values, strict=True)) for values in product(*axes.values()))
    return [combination for combination in named if allowed(combination)]


def covering(axes: Axes, allowed: Allowed, pivot: str | None = None) -> list[Combination]:
    """Every two values of different axes that are allowed together at all are together in one of them.

    With a pivot only pairs that have a value of that axis must be: that takes far fewer combinations. Greedy and
    deterministic: each next combination has the first pair that is missing, and of those that have it is the one with
    the most other pairs that are missing, then with values that were chosen the least. The longest axes come first,
    because they need the most combinations.
    """
    names = list(axes)
    chosen: list[tuple[int, ...]] = []
    missing = _pairs(axes, pivot)
    used: Counter[_Place | _Pair] = Counter()
    for pair in list(missing):
        if pair not in missing:
            continue
        possible = [places for places in _having(axes, pair) if allowed(_named(axes, names, places))]
        if not possible:
            continue  # the two cannot meet
        best = max(possible, key=lambda places: _gain(places, missing, used))
        used.update(enumerate(best))
        for met in combinations(enumerate(best), 2):
            missing.pop(met, None)
            used[met] += 1
        chosen.append(best)
    return [_named(axes, names, places) for places in chosen]


def _pairs(axes: Axes, pivot: str | None) -> dict[_Pair, None]:
    """Returns all pairs that must be covered, in the order of the search."""
    numbered = [(number, values) for number, (name, values) in enumerate(axes.items())]
    names = list(axes)
    wanted = [
        two for two in combinations(numbered, 2) if pivot is None or pivot in (names[two[0][0]], names[two[1][0]])
    ]
    wanted.sort(key=lambda two: -len(two[0][1]) * len(two[1][1]))
    return {
        ((one, left), (other, right)): None
        for (one, lefts), (other, rights) in wanted
        for left, right in product(range(len(lefts)), range(len(rights)))
    }


def _having(axes: Axes, pair: _Pair) -> Iterator[tuple[int, ...]]:
    fixed = dict(pair)
    return product(
        *([fixed[axis]] if axis in fixed else range(len(values)) for axis, values in enumerate(axes.values()))
    )


def _gain(
    places: tuple[int, ...], missing: Mapping[_Pair, None], used: Counter[_Place | _Pair]
) -> tuple[int, int, int]:
    pairs = list(combinations(enumerate(places), 2))
    gained = sum(pair in missing for pair in pairs)
    return gained, sum(pair not in used for pair in pairs), -sum(used[place] for place in enumerate(places))


def _named(axes: Axes, names: Sequence[str], places: tuple[int, ...]) -> Combination:
    return {name: axes[name][place] for name, place in zip(names, places, strict=True)}
