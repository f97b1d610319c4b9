"""`--tables-from`: tables of a text file, or those that a run of dbt has built."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.console import Run
from tidyberg.cli.tables_from import tables_from
from tidyberg.errors import BadInput

TABLE = {"resource_type": "model", "schema": "marts", "config": {"materialized": "table", "meta": {"tidyberg": True}}}


def dbt_run(directory: Path, *nodes: dict[str, Any], status: str = "success", which: str = "run") -> Path:
    """Writes what dbt writes, with one result for each node."""
    named = {f"model.{number}": {"alias": f"t{number}", **node} for number, node in enumerate(nodes)}
    results = [{"unique_id": name, "status": status} for name in named]
    (directory / "manifest.json").write_text(json.dumps({"nodes": named}))
    path = directory / "run_results.json"
    path.write_text(json.dumps({"args": {"which": which}, "results": results}))
    return path


def configured(**config: Any) -> dict[str, Any]:
    return {**TABLE, "config": {"materialized": "incremental", **config}}


def test_a_text_file_has_one_table_per_line(tmp_path: Path) -> None:
    path = tmp_path / "tables.txt"
    path.write_text("# nightly\nsales.orders\n\n  sales.bills \nsales.orders\n")
    assert tables_from(path) == ("sales.orders", "sales.bills")


@pytest.mark.parametrize(
    ("node", "is_taken"),
    [
        (configured(file_format="iceberg"), True),
        (configured(table_format="ICEBERG"), True),
        (configured(table_type="iceberg"), True),
        (configured(file_format="delta"), False),
        (configured(), False),
        (configured(meta={"tidyberg": True}), True),
        (configured(file_format="iceberg", meta={"tidyberg": False}), False),
        (configured(file_format="iceberg", materialized="view"), False),
        (configured(file_format="iceberg", materialized="ephemeral"), False),
        ({**TABLE, "resource_type": "test"}, False),
        ({**TABLE, "resource_type": "snapshot"}, True),
    ],
)
def test_iceberg_tables_of_dbt_are_taken(tmp_path: Path, node: dict[str, Any], is_taken: bool) -> None:
    assert tables_from(dbt_run(tmp_path, node)) == (("marts.t0",) if is_taken else ())


def test_models_that_failed_and_commands_that_build_nothing_name_no_table(tmp_path: Path) -> None:
    assert tables_from(dbt_run(tmp_path, TABLE, status="error")) == ()
    assert tables_from(dbt_run(tmp_path, TABLE, which="compile")) == ()
    assert tables_from(dbt_run(tmp_path, TABLE, which="build")) == ("marts.t0",)


def test_files_that_are_not_of_one_run_of_dbt_are_refused(tmp_path: Path) -> None:
    path = dbt_run(tmp_path, TABLE)
    (tmp_path / "manifest.json").write_text(json.dumps({"nodes": {}}))
    with pytest.raises(BadInput, match="not of the same run of dbt"):
        tables_from(path)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(BadInput, match=r"There is no manifest\.json beside"):
        tables_from(path)
    for text, reason in (("{", "is not JSON"), ("[]", "is not a file of dbt")):
        path.write_text(text)
        with pytest.raises(BadInput, match=reason):
            tables_from(path)
    with pytest.raises(BadInput, match="Cannot read"):
        tables_from(tmp_path / "missing.txt")


def test_tables_of_a_file_are_a_list_even_if_there_is_one_or_none(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "tables.txt"
    path.write_text("analytics.events\n")
    planned = run("plan", "--tables-from", str(path), "--json")
    assert [each["table"]["name"] for each in json.loads(planned.out)] == ["events"]
    compacted = run("compact", "--tables-from", str(path), "--json")
    assert [each["outcome"] for each in json.loads(compacted.out)] == ["committed"]
    path.write_text("")
    nothing = run("compact", "--tables-from", str(path), "--json", "--detailed-exitcode")
    assert (nothing.status, json.loads(nothing.out)) == (3, [])
    assert run("compact", "--tables-from", str(path)).status == 0
