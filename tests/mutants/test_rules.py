"""The list of mutants stays true: each changes exactly one place of the code as it is."""

import pytest

from tests.mutants.mutant import SOURCE, Mutant
from tests.mutants.rules import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_mutant_changes_one_place_of_the_code(mutant: Mutant) -> None:
    assert (SOURCE / mutant.file).read_text().count(mutant.before) == 1
    assert mutant.after != mutant.before


def test_every_rule_is_broken_in_one_way_only() -> None:
    assert len({(mutant.file, mutant.before, mutant.after) for mutant in MUTANTS}) == len(MUTANTS)
