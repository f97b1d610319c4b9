"""Problems of a file, as values."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

MOST_PROBLEMS = 200  # of one file; a broken writer damages every page


@dataclass(frozen=True, slots=True)
class FileProblem:
    """One false statement of a file. `rule` is the stable name of the violated rule."""

    rule: str
    what: str
    file: str = ""
    row_group: int | None = None
    column: str | None = None
    page: int | None = None

    def __str__(self) -> str:
        places = [
            self.file,
            "" if self.row_group is None else f"row group {self.row_group}",
            "" if self.column is None else f"column {self.column}",
            "" if self.page is None else f"page {self.page}",
        ]
        return f"{', '.join(place for place in places if place)}: {self.what} [{self.rule}]"


@dataclass(frozen=True)
class Findings:
    """Collects problems. `at` returns a collector for a part of the file, which shares the same list."""

    place: FileProblem = FileProblem("", "")
    _found: list[FileProblem] = field(default_factory=list)

    def at(self, *, row_group: int | None = None, column: str | None = None) -> "Findings":
        place = self.place if row_group is None else replace(self.place, row_group=row_group)
        return Findings(place if column is None else replace(place, column=column), self._found)

    def add(self, rule: str, what: str, page: int | None = None) -> None:
        if len(self._found) < MOST_PROBLEMS:
            self._found.append(replace(self.place, rule=rule, what=what, page=page))

    def expect(self, holds: bool, rule: str, what: str, page: int | None = None) -> bool:
        if not holds:
            self.add(rule, what, page)
        return holds

    def equal(self, rule: str, what: str, said: object, true: object, page: int | None = None) -> None:
        if said != true:
            self.add(rule, f"{what} is {said}, but it should be {true}", page)

    def __iter__(self) -> Iterator[FileProblem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
