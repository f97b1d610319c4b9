"""Finds out whether several tables share a directory: then the files of one look like orphans of the other."""

from collections.abc import Sequence

from tidyberg.model.orphans import SharedLocation, TableLocations
from tidyberg.observe.locations import spelled_roots


def shared_locations(tables: Sequence[TableLocations]) -> list[SharedLocation]:
    """Returns each pair of tables of which one has a root in, or equal to, a root of the other."""
    roots = [
        (spelled, number, root)
        for number, table in enumerate(tables)
        for root, spelled in zip(table.roots, spelled_roots(table.roots), strict=True)
    ]
    found: dict[tuple[int, int], SharedLocation] = {}
    above: list[tuple[str, int, str]] = []  # roots that the current one lies in
    for spelled, number, root in sorted(roots):
        while above and not spelled.startswith(above[-1][0]):
            above.pop()
        for _, other, outer in above:
            pair = min(number, other), max(number, other)
            if number != other and pair not in found:
                found[pair] = SharedLocation(tables[other].table, outer, tables[number].table, root)
        above.append((spelled, number, root))
    return list(found.values())
