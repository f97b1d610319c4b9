"""A slow and obvious model of cron, to compare the real one with."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from tidyberg.model.cron import Cron


def slow_model(cron: Cron, start: datetime, minutes: int, zone: ZoneInfo) -> Iterator[int]:
    """Yields the times at which a daemon fires that wakes every minute and looks at the wall clock."""
    seen = (start - timedelta(minutes=1)).astimezone(zone).replace(tzinfo=None)
    for passed in range(minutes + 1):
        instant = start + timedelta(minutes=passed)
        wall = instant.astimezone(zone).replace(tzinfo=None, fold=0)
        if cron.by_clock:
            fires = cron.matches(wall)
        else:
            skipped = int((wall - seen).total_seconds() // 60)  # 1 but for gaps; less when turned back
            fires = any(cron.matches(wall - timedelta(minutes=back)) for back in range(skipped))
            seen = max(seen, wall)
        if fires and passed > 0:
            yield int(instant.timestamp() * 1000)
