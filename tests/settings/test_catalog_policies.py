"""The policies of Apache Polaris as values of our own policy: what is done, and what is said about all else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.errors import BadInput
from tidyberg.model.catalog_policies import ApplicablePolicy, CatalogPolicyLayers
from tidyberg.model.maintenance_policy import policy_keys
from tidyberg.settings.catalog_policies import POLICY_TYPES, catalog_policy_layers, refuse_malformed
from tidyberg.settings.maintenance import MaintainSettings, PolicySettings, obeys_catalog

DATA, METADATA = "system.data-compaction", "system.metadata-compaction"
ORPHANS, EXPIRY = "system.orphan-file-removal", "system.snapshot-expiry"
STEPS = {DATA: "data", METADATA: "manifests", ORPHANS: "orphans", EXPIRY: "expire"}


def policy(kind: str, content: str | None, name: str = "rule") -> ApplicablePolicy:
    return ApplicablePolicy(kind, name, ("gov", "rules"), 3, True, content)


def mapped(kind: str, **content: Any) -> CatalogPolicyLayers:
    return catalog_policy_layers([policy(kind, json.dumps({"version": "2025-02-03", **content}))])


def switched_on(layers: CatalogPolicyLayers) -> dict[str, Any]:
    return {key: value for layer in layers.switched_on for key, value in layer.given.items()}


def required(layers: CatalogPolicyLayers) -> dict[str, Any]:
    return {key: value for layer in layers.required for key, value in layer.given.items()}


def notes(layers: CatalogPolicyLayers) -> list[tuple[str, bool]]:
    return [(note.reason, note.is_error) for note in layers.notes]


def test_the_four_types_of_polaris_are_known() -> None:
    assert sorted(POLICY_TYPES) == sorted(STEPS)


@pytest.mark.parametrize("kind", STEPS)
def test_enable_false_switches_the_step_off_whatever_else_is_given(kind: str) -> None:
    layers = mapped(kind, enable=False, config={})
    assert required(layers)[f"{STEPS[kind]}.enabled"] is False
    assert switched_on(layers) == {}


@pytest.mark.parametrize("kind", STEPS)
def test_enable_true_gives_only_a_weak_value(kind: str) -> None:
    layers = mapped(kind, enable=True)
    assert switched_on(layers)[f"{STEPS[kind]}.enabled"] is True
    assert (required(layers), layers.notes) == ({}, ())


def test_without_data_compaction_deletes_are_not_merged_either() -> None:
    assert required(mapped(DATA, enable=False)) == {"data.enabled": False, "deletes.enabled": False}
    assert "deletes.enabled" not in switched_on(mapped(DATA, enable=True))


def test_the_values_of_the_examples_of_polaris() -> None:
    config = {"target_file_size_bytes": 134217728, "compaction_strategy": "bin-pack"}
    assert required(mapped(DATA, enable=True, config=config)) == {"data.target_file_size": 134217728}
    config = {"min_snapshot_to_keep": 1, "max_snapshot_age_days": 2}
    assert required(mapped(EXPIRY, enable=True, config=config)) == {"expire.retain_last": 1, "expire.older_than": "2d"}
    assert required(mapped(ORPHANS, enable=True, max_orphan_file_age_in_days=30)) == {"orphans.older_than": "30d"}
    assert switched_on(mapped(ORPHANS, enable=True))["orphans.action"] == "delete"


def test_the_values_of_a_policy_that_is_off_are_not_used() -> None:
    assert required(mapped(EXPIRY, enable=False, config={"max_snapshot_age_days": 2})) == {"expire.enabled": False}


def test_texts_and_dashes_count_too() -> None:
    config = {"target-file-size-bytes": "1000"}
    assert required(mapped(DATA, enable="true", config=config)) == {"data.target_file_size": 1000}
    assert required(mapped(DATA, enable="false"))["data.enabled"] is False


def test_parts_of_a_day_become_seconds() -> None:
    assert required(mapped(EXPIRY, enable=True, config={"max_snapshot_age_days": 0.5})) == {
        "expire.older_than": "43200s"
    }


NOT_DONE = (
    (
        DATA,
        {"config": {"max-concurrent-file-group-rewrites": 5}},
        "config.max-concurrent-file-group-rewrites is not done",
    ),
    (DATA, {"config": {"compaction_strategy": "sort"}}, 'config.compaction_strategy is "sort": only bin-pack is done'),
    (DATA, {"config": {"key1": "value1"}}, "config.key1 is not a key that we know"),
    (DATA, {"max_orphan_file_age_in_days": 3}, "max_orphan_file_age_in_days is not a key that we know"),
    (DATA, {"locations": ["s3://a"]}, "locations is not a key that we know"),
    (METADATA, {"config": {"spec_id": 1}}, "config.spec_id is not done"),
    (EXPIRY, {"config": {"max_ref_age_days": 3}}, "config.max_ref_age_days is not done"),
    (ORPHANS, {"config": {"prefix_mismatch_mode": "ignore"}}, "config.prefix_mismatch_mode is not done"),
    (ORPHANS, {"locations": ["s3://bucket"]}, "locations is not done"),
)


@pytest.mark.parametrize(("kind", "content", "words"), NOT_DONE)
@pytest.mark.parametrize("enable", [True, False])
def test_a_key_that_is_not_done_is_reported(kind: str, content: dict[str, Any], words: str, enable: bool) -> None:
    layers = mapped(kind, enable=enable, **content)
    ((reason, is_error),) = notes(layers)
    assert reason.startswith(words)
    assert not is_error
    assert f"{STEPS[kind]}.enabled" in {**switched_on(layers), **required(layers)}
    refuse_malformed(layers)


def test_a_search_of_other_locations_deletes_nothing_here() -> None:
    layers = mapped(ORPHANS, enable=True, locations=["s3://bucket"])
    assert switched_on(layers) == {"orphans.enabled": True}


def test_a_type_that_is_not_done_is_reported() -> None:
    layers = catalog_policy_layers([policy("system.row-filter", None)])
    assert notes(layers) == [("tidyberg does not do this type of policy", False)]
    assert str(layers.notes[0]).startswith("catalog policy gov.rules.rule version 3, inherited (system.row-filter): ")


MALFORMED: tuple[tuple[str, str | None, str], ...] = (
    (DATA, None, "it has no content"),
    (DATA, "  ", "it has no content"),
    (DATA, "{", "its content is not valid JSON"),
    (DATA, "[" * 100_000, "its content is not valid JSON"),
    (DATA, '{"enable": NaN}', "its content is not valid JSON"),
    (DATA, "[true]", "its content is not a JSON object"),
    (DATA, "{}", "enable is missing: it must be true or false"),
    (DATA, '{"enable": null}', "enable is null: it must be true or false"),
    (DATA, '{"enable": 1}', "enable is 1: it must be true or false"),
    (DATA, '{"enable": "yes"}', 'enable is "yes": it must be true or false'),
    (DATA, '{"enable": true, "version": "2031-01-01"}', 'its content has version "2031-01-01"'),
    (DATA, '{"enable": true, "version": 0}', "its content has version 0"),
    (DATA, '{"enable": true, "config": 5}', "config is not a JSON object"),
    (DATA, '{"enable": true, "config": {"target_file_size_bytes": "big"}}', "it is not a number"),
    (DATA, '{"enable": true, "config": {"target_file_size_bytes": true}}', "it is not a number"),
    (DATA, '{"enable": true, "config": {"target_file_size_bytes": 0}}', "it must be more than 0"),
    (DATA, '{"enable": true, "config": {"target_file_size_bytes": 1.5}}', "it must be a whole number"),
    (
        DATA,
        '{"enable": true, "config": {"target_file_size_bytes": 1, "target-file-size-bytes": 2}}',
        "is also given as",
    ),
    (DATA, '{"enable": true, "config": {"compaction_strategy": 5}}', "it is not a text"),
    (EXPIRY, '{"enable": true, "config": {"max_snapshot_age_days": 0}}', "it must be more than 0"),
    (EXPIRY, '{"enable": true, "config": {"max_snapshot_age_days": -1}}', "it must be more than 0"),
    (EXPIRY, '{"enable": true, "config": {"max_snapshot_age_days": 1e300}}', "it is too large"),
    (EXPIRY, '{"enable": true, "config": {"max_snapshot_age_days": 1e15}}', "it is too large"),
    (EXPIRY, '{"enable": true, "config": {"max_snapshot_age_days": "inf"}}', "it is too large"),
    (EXPIRY, '{"enable": true, "config": {"max_snapshot_age_days": "nan"}}', "it is not a number"),
    (EXPIRY, '{"enable": true, "config": {"max_snapshot_age_days": 1e-9}}', "it is less than a second"),
    (EXPIRY, '{"enable": true, "config": {"min_snapshot_to_keep": 0}}', "it must be more than 0"),
    (ORPHANS, '{"enable": true, "max_orphan_file_age_in_days": 0.5}', "it is below 1 day"),
)


@pytest.mark.parametrize(("kind", "content", "words"), MALFORMED)
def test_a_content_that_cannot_be_understood_is_an_error(kind: str, content: str | None, words: str) -> None:
    layers = catalog_policy_layers([policy(kind, content)])
    ((reason, is_error),) = notes(layers)
    assert words in reason
    assert is_error
    with pytest.raises(BadInput, match=r"Catalog policy gov\.rules\.rule version 3.*maintain\.policies_from"):
        refuse_malformed(layers)


def test_two_policies_of_one_type_are_an_error() -> None:
    content = '{"enable": true}'
    layers = catalog_policy_layers([policy(EXPIRY, content, "one"), policy(EXPIRY, content, "two")])
    with pytest.raises(BadInput, match=r"gov\.rules\.one has the same type"):
        refuse_malformed(layers)


DONE = {
    DATA: {"target_file_size_bytes", "compaction_strategy"},
    METADATA: set[str](),
    EXPIRY: {"min_snapshot_to_keep", "max_snapshot_age_days"},
    ORPHANS: set[str](),
}
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
CONFIG_KEYS = st.sampled_from(
    ["target_file_size_bytes", "compaction_strategy", "min_snapshot_to_keep", "max_snapshot_age_days", "spec_id", "x"]
)
CONTENTS = st.fixed_dictionaries(
    {"enable": st.booleans()},
    optional={
        "config": st.dictionaries(CONFIG_KEYS, VALUES) | VALUES,
        "max_orphan_file_age_in_days": VALUES,
        "locations": st.lists(st.text(max_size=3)) | VALUES,
        "version": VALUES,
    },
)


@given(kind=st.sampled_from(sorted(STEPS)), content=CONTENTS)
def test_whatever_a_policy_says_is_a_valid_value_or_a_note(kind: str, content: dict[str, Any]) -> None:
    layers = catalog_policy_layers([policy(kind, json.dumps(content))])
    given_values = {**switched_on(layers), **required(layers)}
    assert set(given_values) <= set(policy_keys())
    document: dict[str, Any] = {}
    for key, value in given_values.items():
        section, _, name = key.partition(".")
        document.setdefault(section, {})[name] = value
    PolicySettings.model_validate(document)
    config = content.get("config")
    if isinstance(config, dict) and all("config" in note.reason or not note.is_error for note in layers.notes):
        said = " ".join(note.reason for note in layers.notes)
        assert [key for key in config if key not in DONE[kind] and f"config.{key} is" not in said] == []


def test_policies_from_is_a_setting_of_all_catalogs_or_of_one() -> None:
    def obeys(**maintain: Any) -> bool:
        return obeys_catalog(MaintainSettings.model_validate(maintain), "lake")

    assert not obeys()
    assert obeys(policies_from="catalog")
    assert obeys(catalogs={"lake": {"policies_from": "catalog"}})
    assert not obeys(catalogs={"other": {"policies_from": "catalog"}})
    assert not obeys(policies_from="catalog", catalogs={"lake": {"policies-from": "settings"}})
    assert obeys(policies_from="catalog", catalogs={"lake": {"enabled": False}})
    with pytest.raises(ValueError, match="policies_from"):
        obeys(policies_from="polaris")
