"""Reads the values of Prometheus metrics."""

from prometheus_client.parser import text_string_to_metric_families

from tidyberg.telemetry.metrics import Metrics


def values(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Returns all samples as Prometheus parses them."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return values(metrics).get((name, tuple(sorted(labels.items()))))
