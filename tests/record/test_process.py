"""Whether the process of a job still lives."""

from dataclasses import replace

from tidyberg.model.job import Owner
from tidyberg.record.process import is_alive, this_process


def test_this_process_is_alive_and_its_pid_in_another_life_is_not() -> None:
    assert is_alive(this_process()) is True
    assert is_alive(replace(this_process(), started=1.5)) is False
    assert is_alive(replace(this_process(), host="elsewhere")) is None
    assert is_alive(Owner(this_process().host, 2**22 + 1, 5.0)) is False
