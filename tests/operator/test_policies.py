"""What a policy means, without a cluster: the id and the content of its schedule, mistakes, and the definitions."""

import itertools
import re
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tidyberg.operator.definitions import definitions
from tidyberg.operator.main import main
from tidyberg.operator.policies import (
    COMPACTION,
    MAINTENANCE,
    MOST_ID_CHARACTERS,
    POLICY_KINDS,
    BadPolicy,
    PolicyName,
    PolicySpec,
    wanted_schedule,
)

EVENTS = PolicyName("kubernetes", COMPACTION, "lake", "events")
SPEC = {"table": "public.events", "schedule": "0 * * * *"}


def test_a_policy_is_one_schedule_of_its_kind_of_job() -> None:
    spec = {
        **SPEC,
        "catalog": "prod",
        "strategy": "small-files",
        "options": {"target_file_size": "1GB"},
        "timezone": "Europe/Berlin",
        "jitterSeconds": 60,
        "missed": "skip",
        "suspend": True,
        "tenant": "sales",
        "priority": 3,
    }
    schedule = wanted_schedule(EVENTS, spec)
    assert schedule.model_dump(exclude={"source", "last_due", "next_due"}) == {
        "schedule_id": "kubernetes_compact_lake_events",
        "kind": "compact",
        "cron": "0 * * * *",
        "table": "public.events",
        "catalog": "prod",
        "strategy": "small-files",
        "options": {"target_file_size": "1GB"},
        "timezone": "Europe/Berlin",
        "jitter_seconds": 60,
        "missed": "skip",
        "enabled": False,
        "tenant": "sales",
        "priority": 3,
    }
    maintenance = PolicyName("kubernetes", MAINTENANCE, "lake", "events")
    assert wanted_schedule(maintenance, SPEC).kind == "maintain"


def test_ids_of_different_policies_differ_and_are_valid_in_the_service() -> None:
    long = "n" * 253
    names = [
        PolicyName(cluster, kind, namespace, name).schedule_id
        for cluster, kind, namespace, name in itertools.product(
            ("kubernetes", "eu-1"), POLICY_KINDS, ("a", "a-b", "l" * 63), ("b", "b-c", f"{long}a"[1:], f"{long}b"[1:])
        )
    ]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) for name in names)
    assert max(map(len, names)) == MOST_ID_CHARACTERS


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "spec.table: Field required"),
        ({**SPEC, "jitterSeconds": -1}, "spec.jitterSeconds"),
        ({**SPEC, "jitterSeconds": "soon"}, "spec.jitterSeconds"),
        ({**SPEC, "missed": "never"}, "spec.missed"),
        ({**SPEC, "options": ["a"]}, "spec.options"),
        ({**SPEC, "tabel": "x"}, "spec.tabel"),
        ({**SPEC, "table": ""}, "spec.table"),
    ],
)
def test_a_mistake_in_the_spec_is_named(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(BadPolicy, match=re.escape(words)):
        wanted_schedule(EVENTS, spec)


def test_only_compactions_have_a_strategy() -> None:
    with pytest.raises(BadPolicy, match="no strategy"):
        wanted_schedule(PolicyName("kubernetes", MAINTENANCE, "lake", "all"), {**SPEC, "strategy": "full"})


def test_the_definitions_have_the_fields_that_the_operator_reads() -> None:
    fields = {field.alias for field in PolicySpec.model_fields.values()}
    for kind, definition in zip(POLICY_KINDS, definitions(), strict=True):
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        assert set(schema["properties"]) == fields - ({"strategy"} if kind is not COMPACTION else set())
        assert set(schema["required"]) == {
            field.alias for field in PolicySpec.model_fields.values() if field.is_required()
        }
        given = {name: inner["default"] for name, inner in schema["properties"].items() if "default" in inner}
        assert given == {
            field.alias: field.default for field in PolicySpec.model_fields.values() if field.alias in given
        }


def test_the_definitions_are_valid_and_the_command_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds"]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert printed == definitions()
    for definition in printed:
        kubernetes_validate.validate(definition, "1.37", strict=True)
