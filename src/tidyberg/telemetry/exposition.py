"""Writes the text format of Prometheus with whole numbers as 60, not 60.0, also in bucket bounds.

prometheus-client writes floats, and adds a creation time to every counter.
"""

import math
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

_WHOLE = 2**53  # above this, a float cannot hold every whole number


def as_text(registry: CollectorRegistry) -> bytes:
    return "".join(line for family in registry.collect() for line in _family(family)).encode()


def _family(family: Metric) -> Iterator[str]:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    yield f"# HELP {name} {_escape(family.documentation)}\n"
    yield f"# TYPE {name} {family.type}\n"
    for sample in family.samples:
        if not sample.name.endswith("_created"):
            yield _line(sample)


def _line(sample: Sample) -> str:
    labels = ",".join(f'{name}="{_label(name, value)}"' for name, value in sample.labels.items())
    return (
        f"{sample.name}{{{labels}}} {_number(sample.value)}\n" if labels else f"{sample.name} {_number(sample.value)}\n"
    )


def _label(name: str, value: str) -> str:
    if name == "le" and value != "+Inf":
        return _number(float(value))
    return _escape(value).replace('"', r"\"")


def _number(value: float) -> str:
    if math.isfinite(value):
        return str(int(value)) if abs(value) < _WHOLE and value == int(value) else repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
