"""`tidyberg invoke` runs the function for one event, or serves its endpoint."""

import json
from pathlib import Path

import pytest

from tests.builders.console import Run


def test_invoke_runs_one_event_from_a_file(run: Run, tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text('{"tables": ["analytics.events"]}')
    done = run("invoke", str(event))
    assert done.status == 0, done
    (report,) = done.json["tables"]
    assert (report["outcome"], report["done"]["files_replaced"]) == ("committed", 12)


def test_an_error_of_the_function_is_printed_as_lambda_would_answer_it(run: Run, tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"tables": ["analytics.*"], "kind": "vacuum"}))
    done = run("invoke", str(event))
    assert done.status == 5
    assert done.json["errorType"] == "BadInput"
    assert "'vacuum' is not a kind of job" in done.json["errorMessage"]


@pytest.mark.parametrize("content", ["[]", "{", "nothing"])
def test_invoke_refuses_files_without_a_json_object(run: Run, tmp_path: Path, content: str) -> None:
    event = tmp_path / "event.json"
    event.write_text(content)
    done = run("invoke", str(event))
    assert done.status == 2
    assert "event.json is not" in done.err


def test_invoke_names_a_file_that_is_missing(run: Run) -> None:
    done = run("invoke", "missing.json")
    assert done.status == 2
    assert "missing.json cannot be read" in done.err


def test_invoke_refuses_other_addresses_without_insecure(run: Run) -> None:
    done = run("invoke", "--host", "0.0.0.0")
    assert done.status == 2
    assert "--insecure" in done.err
