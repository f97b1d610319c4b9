"""Finds out whether the process of a job is still alive."""

import socket
from dataclasses import replace

import pytest

from tidyberg.model.job import Owner
from tidyberg.record.process import is_alive, this_process


def test_this_process_is_alive_and_an_earlier_one_with_its_pid_is_not() -> None:
    assert is_alive(this_process()) is True
    assert is_alive(replace(this_process(), started=1.5)) is False
    assert is_alive(replace(this_process(), host="elsewhere")) is None
    assert is_alive(Owner(this_process().host, 2**22 + 1, 5.0)) is False


def test_a_process_of_another_container_or_machine_with_this_host_name_is_not_called_dead() -> None:
    """Each may have a process of this number: that ours started at another time says nothing of theirs."""
    host = this_process().host
    assert host.startswith(socket.gethostname())
    for other in (socket.gethostname(), f"{socket.gethostname()} another-boot {host.split()[-1]}", f"{host[:-2]}0]"):
        if other != host:
            assert is_alive(replace(this_process(), host=other, started=1.5)) is None


def test_a_process_of_another_lambda_sandbox_is_not_called_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sandboxes that were restored from one snapshot have the same host name and boot, and the same process numbers."""
    monkeypatch.setenv("AWS_LAMBDA_LOG_STREAM_NAME", "2026/11/17/[$LATEST]one")
    other = replace(this_process(), started=1.5)
    assert is_alive(this_process()) is True
    assert is_alive(other) is False  # the runtime of this sandbox was killed and started again
    monkeypatch.setenv("AWS_LAMBDA_LOG_STREAM_NAME", "2026/11/17/[$LATEST]two")
    assert is_alive(other) is None
