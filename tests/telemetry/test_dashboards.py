"""The dashboard and the alerts use only exported metrics and labels."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.builders.job_records import RUN, SUBMISSION, FixedQueue, as_queue, submission
from tidyberg.model.job import JobStatus
from tidyberg.telemetry.metrics import Metrics

ROOT = Path(__file__).parents[2]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "dashboards" / "tidyberg.json").read_text())
RULES: list[dict[str, Any]] = yaml.safe_load((ROOT / "dashboards" / "alerts.yaml").read_text())["groups"][0]["rules"]
OPERATIONS = ROOT / "docs" / "operations.md"
OF_PROMETHEUS = {"job", "instance"}  # labels that a scrape adds
FUNCTIONS = {"absent", "count", "histogram_quantile", "increase", "max", "min", "rate", "sum", "time", "vector"}
WORDS = {"and", "or", "by", "on", "unless"}


def exported() -> dict[str, set[str]]:
    """Returns all sample names with their labels."""
    metrics = Metrics()
    waiting, running = submission(JobStatus.QUEUED), submission(JobStatus.RUNNING)
    metrics.watch(as_queue(FixedQueue([SUBMISSION, waiting, running])), paused=lambda: 1)
    metrics.job_submitted(SUBMISSION)
    metrics.job_started(SUBMISSION)
    metrics.job_ended(SUBMISSION, RUN, (1,))
    metrics.http("GET", "/health", 200, 0.1)
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def asked_of(expression: str) -> tuple[dict[str, set[str]], set[str]]:
    """Returns the metrics of a PromQL expression with their label selectors, and its grouping labels."""
    plain = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    grouped = {label.strip() for names in re.findall(r"\b(?:by|on) \(([^)]*)\)", plain) for label in names.split(",")}
    plain = re.sub(r"\b(?:by|on) \([^)]*\)", "", re.sub(r"\[[^\]]*\]", "", plain))
    selected: dict[str, set[str]] = {}
    for name, matchers in re.findall(r"([a-zA-Z_]\w*)(?:\{([^}]*)\})?(?!\w)", plain):
        if name not in FUNCTIONS | WORDS and not re.fullmatch(r"e\d+", name):
            found = {matcher.split("=")[0].rstrip("!").strip() for matcher in matchers.split(",") if matcher}
            selected.setdefault(name, set()).update(found)
    rest = re.sub(r"\{[^}]*\}", "", plain)
    return {name: labels for name, labels in selected.items() if re.search(rf"\b{name}\b", rest)}, grouped


def expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for rule in RULES:
        yield rule["alert"], rule["expr"]


@pytest.mark.parametrize(("title", "expression"), list(expressions()))
def test_every_expression_uses_existing_metrics_and_labels(title: str, expression: str) -> None:
    there = exported()
    asked, grouped = asked_of(expression)
    assert asked, title
    for name, labels in asked.items():
        assert name in there, f"{title}: {name} is not exported"
        assert labels <= there[name] | OF_PROMETHEUS, f"{title}: {name} has no labels {labels - there[name]}"
    assert grouped <= OF_PROMETHEUS.union(*(there[name] for name in asked)), title


def test_expressions_are_parsed_correctly() -> None:
    asked, grouped = asked_of(
        'sum by (le, a) (rate(x_bucket{job=~"b|c",d!="e{f}"}[5m])) * 1e12 / max(y) and on (a) z > 2'
    )
    assert asked == {"x_bucket": {"job", "d"}, "y": set(), "z": set()}
    assert grouped == {"le", "a"}


def test_dashboard_is_portable() -> None:
    assert DASHBOARD["id"] is None  # Grafana assigns the id
    assert DASHBOARD["uid"] == "tidyberg"
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    for panel in DASHBOARD["panels"]:
        sources = [panel.get("datasource"), *(target["datasource"] for target in panel.get("targets", ()))]
        assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources if source), panel[
            "title"
        ]
        assert panel["type"] == "row" or all(sources)


def test_rows_group_the_panels_without_overlap() -> None:
    panels = DASHBOARD["panels"]
    rows = [panel["title"] for panel in panels if panel["type"] == "row"]
    groups = [
        "Jobs",
        "Speed",
        "Cost and predictions",
        "Queue",
        "HTTP",
        "Errors and processes",
        "Tenants",
        "Maintenance",
    ]
    assert rows == groups
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_every_panel_has_a_description() -> None:
    for panel in DASHBOARD["panels"]:
        if panel["type"] != "row":
            assert panel["description"].endswith("."), panel["title"]
            assert panel["targets"]


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {name for _, expression in expressions() for name in asked_of(expression)[0]}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported()}
    unseen = {name for name in families if not name.startswith(("process_", "python_"))}
    unseen -= {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    assert unseen == {"compactions_succeeded_total", "compactions_failed_total"}  # compaction_jobs_total contains both


def test_every_alert_has_its_own_runbook() -> None:
    books = [rule["annotations"]["runbook"] for rule in RULES]
    assert len(set(books)) == len(books)
    assert all(re.fullmatch(r"docs/operations\.md#[a-z-]+", book) for book in books)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]


def test_every_metric_is_documented() -> None:
    text = (ROOT / "docs" / "observability.md").read_text()
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported()}
    for name in sorted(families):
        assert f"`{name}`" in text or name.startswith(("process_", "python_")), name


@pytest.mark.skipif(not OPERATIONS.exists(), reason="docs/operations.md is not written yet")
def test_every_runbook_exists() -> None:
    headings = re.findall(r"^#+ (.+)$", OPERATIONS.read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    missing = {rule["annotations"]["runbook"].split("#")[1] for rule in RULES} - anchors
    assert not missing
