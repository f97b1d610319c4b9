"""The settings and the code have one retry policy with one set of defaults."""

import random

from tidyberg.control.control import Control
from tidyberg.model.retry import RetryPolicy, backoff_seconds
from tidyberg.settings.sections import Commit


def test_the_defaults_of_the_settings_are_those_of_the_policy() -> None:
    assert Commit().retry_policy == RetryPolicy()
    assert Control.__dataclass_fields__["retry"].default_factory is RetryPolicy


def test_every_setting_reaches_the_policy() -> None:
    wanted = {"retries": 1, "min_wait_ms": 2, "max_wait_ms": 3, "total_timeout_ms": 4}
    assert Commit(**wanted).retry_policy == RetryPolicy(**wanted)


def test_waits_double_up_to_the_longest_and_are_spread() -> None:
    rng = random.Random(1)
    for attempt, longest in enumerate((0.1, 0.2, 0.4, 0.8, 1.0, 1.0)):
        waits = [backoff_seconds(attempt, 0.1, 1.0, rng) for _ in range(200)]
        assert longest / 2 <= min(waits) < 0.6 * longest
        assert 0.9 * longest < max(waits) <= longest


def test_a_wait_after_very_many_attempts_does_not_overflow() -> None:
    assert RetryPolicy().wait_seconds(10_000, random.Random(1)) <= 10.0
