"""A stream's table stays small under `auto`, which it did not while hot partitions waited as a whole."""

from pathlib import Path

import pytest
from benchmarks.plot import time_plot
from benchmarks.stream import simulate


@pytest.mark.parametrize(("hot_partitions_wait", "most", "jobs"), [(True, 36, 0), (False, 15, 3)])
def test_a_stream_is_compacted_while_it_flows(tmp_path: Path, hot_partitions_wait: bool, most: int, jobs: int) -> None:
    """A commit every five minutes for three hours; `auto` looks at every full hour."""
    day = simulate(tmp_path, commits=36, every_seconds=300, hot_partitions_wait=hot_partitions_wait)
    assert day.jobs == jobs
    assert day.files[-1] <= most


def test_a_plot_has_a_line_for_every_series_within_its_frame() -> None:
    plot = time_plot("files", "hours", "files", {"a": [(0, 0), (24, 2880)], "b": [(0, 1), (24, 30)]})
    assert plot.count("<polyline") == 2
    assert ">24<" in plot
    assert ">2,500<" in plot
