"""Rules of policies that a catalog stores: what they mean, which place wins, and what is never ignored in silence."""

from tests.mutants.mutant import Mutant

PLACES = "tests/settings/test_maintenance.py"
MEANING = "tests/settings/test_catalog_policies.py"
READING = "tests/catalog/test_applicable_policies.py"
DRIFT = "tests/settings/test_policy_drift.py"
MAPPING = "settings/catalog_policies.py"
POLICY = "settings/maintenance.py"
REQUIRED = "[*weak, *of_catalog.required, *_of_properties(ref, properties), *asked]"

CATALOG_POLICIES = (
    Mutant(
        "policies: a value of the catalog is stronger than the settings",
        POLICY,
        REQUIRED,
        "[*of_catalog.required, *weak, *_of_properties(ref, properties), *asked]",
        (PLACES,),
    ),
    Mutant(
        "policies: the table's properties are stronger than a value of the catalog",
        POLICY,
        REQUIRED,
        "[*weak, *_of_properties(ref, properties), *of_catalog.required, *asked]",
        (PLACES,),
    ),
    Mutant(
        "policies: the catalog cannot switch on what the settings switch off",
        POLICY,
        "[*of_catalog.switched_on, *_of_settings(maintain, ref)]",
        "[*_of_settings(maintain, ref), *of_catalog.switched_on]",
        (f"{PLACES}::test_a_policy_of_the_catalog_cannot_switch_on_what_the_settings_switch_off",),
    ),
    Mutant(
        "policies: the catalog counts only if the settings say so",
        POLICY,
        'maintain.policies_from) == "catalog"',
        'maintain.policies_from) != "settings"',
        (f"{MEANING}::test_policies_from_is_a_setting_of_all_catalogs_or_of_one",),
    ),
    Mutant(
        "policies: enable false switches the step off",
        MAPPING,
        "        if not is_enabled:\n",
        "        if False:\n",
        (f"{MEANING}::test_enable_false_switches_the_step_off_whatever_else_is_given",),
    ),
    Mutant(
        "policies: without data compaction, deletes are not merged either",
        MAPPING,
        '{"data.enabled": False, "deletes.enabled": False}',
        '{"data.enabled": False}',
        (f"{MEANING}::test_without_data_compaction_deletes_are_not_merged_either",),
    ),
    Mutant(
        "policies: a key of config that is not done is reported",
        MAPPING,
        'self._note(f"{place}{name} is not done: {why}" if why else f"{place}{name} is not a key that we know")',
        "pass",
        (f"{MEANING}::test_a_key_that_is_not_done_is_reported",),
    ),
    Mutant(
        "policies: a type that is not done is reported",
        MAPPING,
        'self._note("tidyberg does not do this type of policy")',
        "pass",
        (f"{MEANING}::test_a_type_that_is_not_done_is_reported",),
    ),
    Mutant(
        "policies: a policy that cannot be understood stops the maintenance",
        MAPPING,
        "        if note.is_error:\n",
        "        if False:\n",
        (f"{MEANING}::test_a_content_that_cannot_be_understood_is_an_error",),
    ),
    Mutant(
        "policies: a content of an unknown version is not guessed at",
        MAPPING,
        'if version not in (None, "", SCHEMA_VERSION):',
        "if False:",
        (f"{MEANING}::test_a_content_that_cannot_be_understood_is_an_error",),
    ),
    Mutant(
        "policies: of two policies of one type nobody knows which counts",
        MAPPING,
        "if policy.policy_type in _KINDS and policy.policy_type in first:",
        "if False:",
        (f"{MEANING}::test_two_policies_of_one_type_are_an_error",),
    ),
    Mutant(
        "policies: orphans younger than a day stay, whatever a policy says",
        MAPPING,
        "if _number(value) * _DAY_MS < LEAST_AGE_MS:",
        "if False:",
        (f"{MEANING}::test_a_content_that_cannot_be_understood_is_an_error",),
    ),
    Mutant(
        "policies: an age of zero is refused",
        MAPPING,
        "    if number <= 0:\n",
        "    if number < 0:\n",
        (f"{MEANING}::test_a_content_that_cannot_be_understood_is_an_error",),
    ),
    Mutant(
        "policies: a policy for other locations deletes nothing in the table's own",
        MAPPING,
        'if not (has_locations and "action" in key)',
        "if True",
        (f"{MEANING}::test_a_search_of_other_locations_deletes_nothing_here",),
    ),
    Mutant(
        "policies: every page is read",
        "catalog/applicable_policies.py",
        "        if not page.next_page_token:\n",
        "        if True:\n",
        (f"{READING}::test_every_page_is_read",),
    ),
    Mutant(
        "policies: only what somebody has set contradicts a catalog that is obeyed",
        "settings/policy_drift.py",
        "counts = not is_obeyed or ours.origin != DEFAULT",
        "counts = True",
        (f"{DRIFT}::test_a_default_does_not_differ_if_the_catalog_is_obeyed",),
    ),
    Mutant(
        "policies: schedules of other tables and catalogs are no drift",
        "settings/policy_drift.py",
        "if line.enabled and _covers(settings, line, ref):",
        "if line.enabled:",
        (f"{DRIFT}::test_schedules_of_the_table_are_compared_too",),
    ),
)
