"""Coverage traces every second test function, in its first case."""

from tests.traced import traced_cases

CASES = [f"tests/test_a.py::test_{number}[{case}]" for number in range(100) for case in range(3)]


def test_a_function_is_traced_in_its_first_case_only() -> None:
    assert traced_cases(CASES)
    assert all(nodeid.endswith("[0]") for nodeid in traced_cases(CASES))


def test_about_every_second_function_is_traced() -> None:
    assert 35 <= len(traced_cases(CASES)) <= 65


def test_more_tests_do_not_change_what_is_chosen_of_the_others() -> None:
    assert traced_cases([*CASES, "tests/test_b.py::test_new"]) >= traced_cases(CASES)
