"""A rule of the format and one way to break it in our code, with the tests that must notice."""

from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "tidyberg"


@dataclass(frozen=True)
class Mutant:
    rule: str  # what a compaction must obey
    file: str  # below src/tidyberg
    before: str  # occurs exactly once in it
    after: str
    tests: tuple[str, ...]  # what pytest runs; at least one of them must fail

    def apply(self, source: Path) -> None:
        """Break the rule in that copy of the package."""
        path = source / self.file
        text = path.read_text()
        assert text.count(self.before) == 1, f"{self.file} has {text.count(self.before)} times: {self.before!r}"
        path.write_text(text.replace(self.before, self.after))
