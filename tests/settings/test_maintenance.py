"""The policy of `maintain`: which place wins, and what is said about wrong keys and values."""

import dataclasses
import itertools
import json
import random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.errors import BadInput, ConfigurationError
from tidyberg.model.catalog_policies import ApplicablePolicy, CatalogPolicyLayers
from tidyberg.model.maintenance_policy import DEFAULT, MaintenancePolicy, PolicyLayer, merge_policy, policy_keys
from tidyberg.model.table import TableRef
from tidyberg.settings.catalog_policies import catalog_policy_layers
from tidyberg.settings.load import load_settings
from tidyberg.settings.maintenance import (
    NO_POLICIES,
    PROPERTY_PREFIX,
    MaintainSettings,
    PolicySettings,
    flag_layers,
    maintenance_policy,
)

REF = TableRef("lake", ("sales", "eu"), "orders")
OLDER_THAN = "tidyberg.maintain.expire.older-than"


def policy(
    maintain: dict[str, Any],
    properties: dict[str, str] | None = None,
    of_catalog: CatalogPolicyLayers = NO_POLICIES,
    **flags: str,
) -> MaintenancePolicy:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in flags.items()}
    settings = MaintainSettings.model_validate(maintain)
    return maintenance_policy(settings, REF, properties or {}, flag_layers(named), of_catalog)


def expiry_policy(**content: Any) -> CatalogPolicyLayers:
    """What a policy of the catalog says about expiry."""
    return catalog_policy_layers(
        [ApplicablePolicy("system.snapshot-expiry", "keep", ("gov",), 2, False, json.dumps(content))]
    )


def ages(days: int) -> dict[str, Any]:
    return {"expire": {"older_than": f"{days}d"}}


# All places that can give the age, the weakest first: where it is in the settings, and the origin that is shown.
PLACES = (
    ((), "maintain"),
    (("catalogs", "lake"), "maintain.catalogs.lake"),
    (("namespaces", "sal*"), "maintain.namespaces.sal*"),  # matches sales and sales.eu
    (("namespaces", "sales.eu"), "maintain.namespaces.sales.eu"),
    (("catalogs", "lake", "namespaces", "sales"), "maintain.catalogs.lake.namespaces.sales"),
    (("catalogs", "lake", "namespaces", "sales.eu"), "maintain.catalogs.lake.namespaces.sales.eu"),
    (("tables", "sales.*"), "maintain.tables.sales.*"),
    (("tables", "orders"), "maintain.tables.orders"),
    (("tables", "sales.eu.orders"), "maintain.tables.sales.eu.orders"),
    (("catalogs", "lake", "tables", "orders"), "maintain.catalogs.lake.tables.orders"),
    ("policy", "catalog policy gov.keep version 2"),
    ("history.expire.max-snapshot-age-ms", "table property history.expire.max-snapshot-age-ms"),
    (OLDER_THAN, f"table property {OLDER_THAN}"),
    ("flag", "flag"),
)


@given(chosen=st.sets(st.integers(0, len(PLACES) - 1)), order=st.randoms())
def test_the_strongest_place_that_gives_a_value_wins(chosen: set[int], order: Any) -> None:
    check_strongest(chosen, order)


def test_of_two_places_the_stronger_wins() -> None:
    for weak, strong in itertools.combinations(range(len(PLACES)), 2):
        check_strongest({weak, strong}, random.Random(weak))


def check_strongest(chosen: set[int], order: random.Random) -> None:
    maintain: dict[str, Any] = {}
    properties: dict[str, str] = {}
    flags: dict[str, str] = {}
    of_catalog = CatalogPolicyLayers()
    shuffled = sorted(chosen)
    order.shuffle(shuffled)
    for number in shuffled:
        place = PLACES[number][0]
        if place == "flag":
            flags["expire__older_than"] = f"{number}d"
        elif place == "policy":
            of_catalog = expiry_policy(enable=True, config={"max_snapshot_age_days": number})
        elif isinstance(place, str):
            properties[place] = str(number * 86_400_000) if place.startswith("history") else f"{number}d"
        else:
            below = maintain
            for part in place:
                below = below.setdefault(part, {})
            below.update(ages(number))
    found = policy(maintain, properties, of_catalog, **flags)
    if not chosen:
        assert (found.expire.older_than, found.origin("expire.older_than")) == (None, DEFAULT)
        return
    strongest = max(chosen)
    assert found.origin("expire.older_than") == PLACES[strongest][1]
    by_iceberg = PLACES[strongest][0] == "history.expire.max-snapshot-age-ms"  # expire reads that property itself
    assert found.expire.older_than == (None if by_iceberg else f"{strongest}d")


OFF = {"expire": {"enabled": False}}


def test_a_policy_of_the_catalog_cannot_switch_on_what_the_settings_switch_off() -> None:
    found = policy({"tables": {"orders": OFF}}, None, expiry_policy(enable=True))
    assert (found.expire.enabled, found.origin("expire.enabled")) == (False, "maintain.tables.orders")
    found = policy({}, None, expiry_policy(enable=True))
    assert (found.expire.enabled, found.origin("expire.enabled")) == (True, "catalog policy gov.keep version 2")


def test_a_policy_of_the_catalog_can_switch_off_what_the_settings_switch_on() -> None:
    on = {"tables": {"orders": {"expire": {"enabled": True}}}}
    found = policy(on, None, expiry_policy(enable=False))
    assert (found.expire.enabled, found.origin("expire.enabled")) == (False, "catalog policy gov.keep version 2")
    by_owner = {"tidyberg.maintain.expire.enabled": "true"}
    assert policy(on, by_owner, expiry_policy(enable=False)).expire.enabled


def test_the_action_of_the_settings_is_stronger_than_that_of_a_policy() -> None:
    of_catalog = catalog_policy_layers(
        [ApplicablePolicy("system.orphan-file-removal", "clean", (), 0, True, '{"enable": true}')]
    )
    assert policy({}, None, of_catalog).orphans.action == "delete"
    assert policy({"orphans": {"action": "quarantine"}}, None, of_catalog).orphans.action == "quarantine"


def test_what_is_not_done_is_noted_in_the_policy() -> None:
    found = policy({}, None, expiry_policy(enable=True, config={"max_ref_age_days": 3}))
    (note,) = found.notes
    assert note.startswith("catalog policy gov.keep version 2 (system.snapshot-expiry): config.max_ref_age_days")
    assert policy({}).notes == ()


LAYERS = st.lists(
    st.builds(
        PolicyLayer,
        st.text("abc", min_size=1, max_size=3),
        st.dictionaries(st.sampled_from(["enabled", "data.enabled", "expire.enabled"]), st.booleans()),
    ),
    max_size=5,
)


@given(LAYERS, LAYERS)
def test_merging_in_two_parts_is_merging_at_once(weak: list[PolicyLayer], strong: list[PolicyLayer]) -> None:
    together = merge_policy([*weak, *strong])
    alone, below = merge_policy(strong), merge_policy(weak)
    for key, value in together.values().items():
        from_strong = key in alone.origins
        assert value == (alone if from_strong else below).values()[key]
        assert together.origin(key) == (alone if from_strong else below).origin(key)


def test_defaults_are_safe() -> None:
    found = policy({})
    assert found == MaintenancePolicy()
    assert (found.expire.older_than, found.expire.retain_last) == (None, None)  # the table's, or 5 days and 1
    assert set(found.values()) == set(policy_keys())
    assert {found.origin(key) for key in policy_keys()} == {DEFAULT}


def test_the_settings_have_every_key_of_the_policy_and_no_other() -> None:
    in_settings = set()
    for name, field in PolicySettings.model_fields.items():
        inner = getattr(field.annotation, "model_fields", {})
        in_settings |= {f"{name}.{each}" for each in inner} or {name}
    assert in_settings == set(policy_keys())


def test_other_tables_namespaces_and_catalogs_do_not_count() -> None:
    other = {"tables": {"sales.us.orders": ages(1), "clicks": ages(2)}, "namespaces": {"eu": ages(3), "sale": ages(4)}}
    assert policy({**other, "catalogs": {"lab": {**ages(5), **other}}}) == MaintenancePolicy()


def test_keys_may_have_dashes_and_values_may_be_text() -> None:
    found = policy(
        {"expire": {"retain-last": 3, "clean-metadata": "yes"}},
        {f"{PROPERTY_PREFIX}data.enabled": "FALSE", f"{PROPERTY_PREFIX}data.max-cost": "0.5"},
    )
    assert (found.expire.retain_last, found.expire.clean_metadata) == (3, True)
    assert (found.data.enabled, found.data.max_cost) == (False, 0.5)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("expire.olderthan", "5d", "expire.older-than"),
        ("expire", "5d", "The keys are enabled"),
        ("origins", "x", "The keys are enabled"),
        ("expire.older-than", "5", "is not an age"),
        ("expire.retain-last", "0", "greater than or equal to 1"),
        ("expire.enabled", "maybe", "valid boolean"),
        ("data.strategy", "fast", "small_files"),
        ("orphans.older-than", "1h", "'1h' is below 24 hours"),
        ("orphans.newer-than", "soon", "is not a time"),
    ],
)
def test_unknown_keys_and_bad_values_are_errors_that_name_the_place(name: str, value: str, said: str) -> None:
    with pytest.raises(BadInput) as of_property:
        policy({}, {f"{PROPERTY_PREFIX}{name}": value})
    assert f"The property {PROPERTY_PREFIX}{name} of sales.eu.orders" in str(of_property.value)
    assert said in str(of_property.value)
    with pytest.raises(BadInput, match=f"--set {name}"):
        flag_layers({name: value})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expire: {older: 5d}", "the keys are enabled, older_than"),
        ("tables: {orders: {expired: {}}}", "the keys are enabled, scans_per_month"),
        ("namespaces: {sales: {tables: {}}}", "'tables' is not a key here"),
        ("expire: {older-than: 5d, older_than: 6d}", "given twice"),
        ("expire: {older-than: soon}", "is not an age"),
        ("expire: 5d", "should be an object"),
    ],
)
def test_mistakes_in_the_settings_name_the_line_and_the_keys(text: str, said: str, tmp_path: Any) -> None:
    path = tmp_path / "tidyberg.yaml"
    path.write_text(f"engine: inline\nmaintain:\n  {text}\n")
    with pytest.raises(ConfigurationError, match="line 3") as raised:
        load_settings(path, environ={})
    assert said in str(raised.value)


def test_a_policy_survives_its_own_values() -> None:
    found = policy(ages(3), {f"{PROPERTY_PREFIX}data.strategy": "small-files"}, data__max_cost="2")
    assert dataclasses.replace(found) == merge_policy(
        [PolicyLayer(found.origin(key), {key: found.values()[key]}) for key in found.origins]
    )


def test_a_date_needs_no_quotes_in_yaml() -> None:
    given = {"orphans": yaml.safe_load("newer_than: 2026-01-31")}
    assert policy(given).orphans.newer_than == "2026-01-31"
    assert policy({}, {f"{PROPERTY_PREFIX}orphans.newer-than": "2026-01-31T12:00:00Z"}).orphans.newer_than is not None


def test_a_short_age_of_orphans_is_refused_without_naming_flags_that_maintain_lacks() -> None:
    with pytest.raises(BadInput) as refused:
        flag_layers({"orphans.older-than": "1h"})
    assert "--force" not in f"{refused.value} {refused.value.hint}"
    assert "at least 24h" in str(refused.value.hint)
