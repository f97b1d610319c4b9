"""Policies of a catalog, through all surfaces: a REST catalog of Iceberg behind the policy API of Polaris."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyiceberg.table import Table

import tidyberg
from tests.builders.console import Ran, Run
from tests.rest.lab import RestLab
from tests.servers.polaris import PolarisServer, StoredPolicy, error_answer, stored
from tests.servers.rest import RestServer
from tidyberg.app import build_control
from tidyberg.catalog.open import load_table
from tidyberg.cli.main import app, main
from tidyberg.errors import BadInput, Unsupported
from tidyberg.model.table import TableRef
from tidyberg.service.kinds.maintain import plan_maintenance
from tidyberg.settings.settings import Settings

pytestmark = pytest.mark.slow
DATA, EXPIRY, ORPHANS = "system.data-compaction", "system.snapshot-expiry", "system.orphan-file-removal"
Configure = Callable[..., dict[str, Any]]


@pytest.fixture
def polaris(rest_server: RestServer) -> Iterator[PolarisServer]:
    with PolarisServer(rest_server.port) as server:
        yield server


@pytest.fixture
def configure(polaris: PolarisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Writes ./tidyberg.yaml and returns what it says."""
    for name in ("TIDYBERG_CONFIG", "CATALOG_URI", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TIDYBERG_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)

    def write(**maintain: Any) -> dict[str, Any]:
        settings = {"engine": "inline", "catalogs": {"prod": polaris.properties}, "maintain": maintain}
        (tmp_path / "tidyberg.yaml").write_text(yaml.safe_dump(settings))
        return settings

    return write


@pytest.fixture
def run(configure: Configure, capsys: pytest.CaptureFixture[str]) -> Run:
    def go(*arguments: str) -> Ran:
        capsys.readouterr()
        status = main(app, arguments)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return go


@pytest.fixture
def rules(polaris: PolarisServer, lab: RestLab) -> None:
    """The catalog wants no compaction of this namespace, and few snapshots of this table."""
    polaris.store.attach((), stored(DATA, "pack", enable=True), stored("system.row-filter", "filter"))
    polaris.store.attach((lab.namespace,), stored(DATA, "hands-off", enable=False))
    config = {"min_snapshot_to_keep": 1, "max_snapshot_age_days": 1, "max_ref_age_days": 3}
    polaris.store.attach((lab.namespace, "events"), stored(EXPIRY, "short", enable=True, config=config))


def in_settings(lab: RestLab) -> TableRef:
    """The table, as the settings here call its catalog."""
    return replace(lab.ref, catalog="prod")


def test_maintain_obeys_the_catalog_and_says_where_each_value_comes_from(
    run: Run, configure: Configure, lab: RestLab, table: Table, rules: None
) -> None:
    configure(policies_from="catalog", expire={"older_than": "9d"})
    rows, name = lab.rows(table), str(lab.ref)
    plan = run("maintain", name, "--dry-run")
    assert plan.status == 0, plan.err
    shown = " ".join(plan.out.split())
    off = "switched off: data.enabled is false (catalog policy rules.hands-off version 0, inherited)"
    assert off in shown
    assert "policy: expire.older-than = 1d (catalog policy rules.short version 0)" in shown
    assert "! catalog policy rules.short version 0 (system.snapshot-expiry): config.max_ref_age_days is not" in shown
    assert "! catalog policy rules.filter version 0, inherited (system.row-filter): tidyberg does not do" in shown
    ran = run("maintain", name, "--json")
    assert "config.max_ref_age_days is not done" in ran.err
    done = ran.json
    steps = {step["step"]: step["status"] for step in done["steps"]}
    assert (steps["deletes"], steps["data"]) == ("skipped", "skipped")
    assert len(done["policy_notes"]) == 2
    assert done["policy"]["expire.older-than"] == {"value": "1d", "from": "catalog policy rules.short version 0"}
    assert lab.rows(table) == rows


def test_the_catalog_is_not_even_asked_unless_the_settings_say_so(
    run: Run, configure: Configure, polaris: PolarisServer, lab: RestLab, table: Table, rules: None
) -> None:
    configure()
    document = run("maintain", str(lab.ref), "--json").json
    assert document["policy"]["data.enabled"] == {"value": True, "from": "default"}
    assert document["policy_notes"] == []
    assert polaris.asked == []


def test_policies_shows_the_source_of_each_value_and_the_drift(
    run: Run, configure: Configure, lab: RestLab, table: Table, rules: None
) -> None:
    configure(expire={"older_than": "9d"})
    name = str(lab.ref)
    shown = run("policies", name)
    assert (shown.status, shown.err) == (0, "")
    assert "3 policies in catalog prod, which maintain does not obey" in shown.out
    assert "drift: deletes.enabled, data.enabled, expire.older-than" in shown.out
    assert "config.max_ref_age_days is not done" in " ".join(shown.out.split())
    document = run("policies", name, "--json").json
    (expiry,) = [policy for policy in document["policies"] if policy["type"] == EXPIRY]
    assert (expiry["name"], expiry["namespace"], expiry["inherited"]) == ("short", ["rules"], False)
    values = {value["key"]: value for value in document["values"]}
    assert values["expire.older-than"] == {
        "key": "expire.older-than",
        "catalog": {"value": "1d", "from": "catalog policy rules.short version 0"},
        "own": {"value": "9d", "from": "maintain"},
        "differs": True,
        "used": {"value": "9d", "from": "maintain"},
    }
    assert values["expire.retain-last"]["differs"] is False
    assert run("policies", name, "--check").status == 1


def test_without_drift_the_check_succeeds(
    run: Run, configure: Configure, lab: RestLab, table: Table, rules: None
) -> None:
    configure(policies_from="catalog")
    ran = run("policies", str(lab.ref), "--check")
    assert ran.status == 0, ran.out
    assert "which maintain obeys" in ran.out
    assert "no drift" in ran.out


def test_policies_of_several_tables_are_listed(
    run: Run, configure: Configure, lab: RestLab, table: Table, rules: None
) -> None:
    configure()
    lab.create_table(f"{lab.namespace}.other")
    documents = run("policies", f"{lab.namespace}.*", "--json").json
    assert [(each["table"], len(each["policies"]), each["drift"]) for each in documents] == [
        (str(lab.ref), 3, True),
        (f"{lab.namespace}.other", 2, True),
    ]
    ran = run("policies", f"{lab.namespace}.*", "--check")
    assert (ran.status, "2 tables" in ran.out) == (1, True)


def test_a_malformed_policy_stops_maintain_and_is_shown(
    run: Run, configure: Configure, polaris: PolarisServer, lab: RestLab, table: Table
) -> None:
    configure(policies_from="catalog")
    polaris.store.attach((lab.namespace,), StoredPolicy(EXPIRY, "broken", '{"enable": "perhaps"}'))
    before = table.refresh().metadata.last_updated_ms
    ran = run("maintain", str(lab.ref))
    assert ran.status == BadInput.exit_code
    assert 'enable is "perhaps": it must be true or false' in " ".join(ran.err.split())
    assert table.refresh().metadata.last_updated_ms == before
    shown = run("policies", str(lab.ref))
    assert (shown.status, "rules.broken" in shown.out) == (2, True)


def test_a_catalog_without_the_api_is_named(
    run: Run, configure: Configure, polaris: PolarisServer, lab: RestLab, table: Table
) -> None:
    configure(policies_from="catalog")
    polaris.has_policy_api = False
    for command in (("policies",), ("maintain", "--dry-run")):
        ran = run(*command, str(lab.ref))
        assert ran.status == Unsupported.exit_code
        assert "Catalog 'prod' has no policy API" in ran.err


def test_a_catalog_that_refuses_stops_maintain(
    run: Run, configure: Configure, polaris: PolarisServer, lab: RestLab, table: Table
) -> None:
    configure(policies_from="catalog")
    polaris.answer_instead = error_answer(403, "ForbiddenException")
    ran = run("maintain", str(lab.ref))
    assert ran.status != 0
    assert "TABLE_READ_PROPERTIES" in ran.err


def test_a_job_of_the_service_plans_by_the_catalog(
    configure: Configure, polaris: PolarisServer, lab: RestLab, table: Table, rules: None
) -> None:
    polaris.store.attach((lab.namespace,), stored(ORPHANS, "clean", enable=True, max_orphan_file_age_in_days=4))
    settings = Settings.model_validate(configure(policies_from="catalog"))
    ref = in_settings(lab)
    with build_control(settings) as control:
        plan = plan_maintenance(control, settings, ref, {"expire": {"older_than": "3d"}})
    assert (plan.policy.orphans.older_than, plan.policy.orphans.action) == ("4d", "delete")
    assert plan.policy.origin("orphans.older_than") == "catalog policy rules.clean version 0, inherited"
    assert (plan.policy.expire.older_than, plan.policy.origin("expire.older_than")) == ("3d", "request")


def test_python_reports_policies_too(configure: Configure, lab: RestLab, table: Table, rules: None) -> None:
    settings = Settings.model_validate(configure(policies_from="catalog"))
    with build_control(settings) as control:
        loaded = load_table(control.catalog("prod"), in_settings(lab))
        report = tidyberg.policy_report(loaded)
    assert (report.is_obeyed, len(report.policies), report.drift) == (True, 3, ())
    assert [note.policy.name for note in report.notes] == ["filter", "short"]
