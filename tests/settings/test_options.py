"""From the contract's options to a plan's, layer by layer."""

from dataclasses import fields
from datetime import date
from typing import Any

import pytest

from tidyberg.errors import BadInput, BadSortOrder, ConfigurationError
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.sizes import GB, MB
from tidyberg.model.table import TableRef
from tidyberg.settings.options import plan_options
from tidyberg.settings.sections import Options
from tidyberg.settings.settings import Settings

EVENTS = TableRef("default", ("analytics",), "events")


def resolve(settings: dict[str, Any], overrides: dict[str, Any] | None = None, ref: TableRef = EVENTS) -> PlanOptions:
    return plan_options(Settings.model_validate(settings), ref, overrides or {})


def test_every_option_of_a_plan_can_be_set() -> None:
    limits = {"min_target_file_size", "max_output_files"}  # the installation's, and not for callers
    assert set(Options.model_fields) == {field.name for field in fields(PlanOptions)} - limits


def test_nothing_set_gives_the_built_in_defaults() -> None:
    assert resolve({}) == PlanOptions(min_target_file_size=MB)


def test_the_caller_overrides_the_table_which_overrides_the_section() -> None:
    settings = {
        "compaction": {"target_file_size": "1GB", "max_files": 10, "min_input_files": 2},
        "tables": [{"name": "events", "strategy": "full", "options": {"max_files": 20, "min_input_files": 3}}],
    }
    options = resolve(settings, {"min_input_files": 4})
    assert options.strategy is Strategy.FULL
    assert (options.target_file_size, options.max_files, options.min_input_files) == (GB, 20, 4)


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"target_file_size": "1GB"}, "target_file_size", GB),
        ({"target-file-size": "1GB"}, "target_file_size", GB),
        ({"target_file_size_mb": 128}, "target_file_size", 128 * MB),
        ({"small_file_threshold_mb": 64}, "small_file_threshold", 64 * MB),
        ({"min_files_to_compact": 3}, "min_input_files", 3),
        ({"max_files_per_compaction": 100}, "max_files", 100),
        ({"partition_filter": "date = '2024-01-01'"}, "where", "date = '2024-01-01'"),
        ({"fragment_ratio_threshold": 0.4}, "max_delete_ratio", 0.4),
        ({"max_cost": 10.0}, "max_cost", 10.0),
        ({"force": True}, "force", True),
        ({"strategy": "time-series"}, "strategy", Strategy.TIME_SERIES),
        ({"parquet": {"write.parquet.compression-level": 5}}, "parquet", {"compression-level": "5"}),
        ({"target_file_size_mb": None, "max_files": None}, "max_files", None),
    ],
)
def test_options_in_the_spelling_of_the_contract(given: dict[str, Any], name: str, value: object) -> None:
    assert getattr(resolve({}, given), name) == value


def test_a_target_of_one_byte_is_refused_from_every_source() -> None:
    said = "target_file_size is 1 B, below the minimum of 1 MB"
    with pytest.raises(BadInput, match=said):
        resolve({}, {"target_file_size": 1, "force": True})
    with pytest.raises(BadInput, match=said):
        resolve({"compaction": {"target_file_size": 1}})
    with pytest.raises(BadInput, match=said):
        resolve({"tables": [{"name": "events", "options": {"target_file_size": 1}}]})
    assert resolve({}, {"target_file_size": MB}).target_file_size == MB
    assert resolve({"limits": {"min_target_file_size": 1}}, {"target_file_size": 1}).target_file_size == 1


def test_large_sizes_are_not_rounded() -> None:
    assert resolve({}, {"target_file_size": 2**63 - 1}).target_file_size == 2**63 - 1
    assert resolve({}, {"target_file_size": "1.5GiB"}).target_file_size == 1536 * MB


def test_no_request_raises_the_limits_of_the_installation() -> None:
    for given in ({"max_output_files": 10**9}, {"min_target_file_size": 1}):
        with pytest.raises(BadInput, match="is not an option"):
            resolve({}, given)
    assert resolve({"limits": {"max_output_files": 7}}).max_output_files == 7


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"target_filesize": "1GB"}, "'target_filesize' is not an option; did you mean 'target_file_size'?"),
        ({"frobnicate": 1}, "'frobnicate' is not an option."),
        ({"target_file_size": "huge"}, "'huge' is not a size"),
        ({"strategy": "sort-of"}, "'sort-of' is not a strategy. Choose one of"),
        ({"target_file_size": "9" * 400}, "is too large for a size"),
        ({"target_file_size": 2**63}, "is too large for a size"),
        ({"hot_window_seconds": 10**12}, "'hot_window_seconds' should be less than or equal to"),
        ({"branch": ""}, "'branch' should have at least 1 character."),
        ({"max_files": 0}, "'max_files' should be greater than or equal to 1"),
        ({"max_files": "many"}, "'max_files' should be a valid integer"),
        ({"max_cost": "much"}, "'max_cost' should be a valid number"),
    ],
)
def test_bad_options_are_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        resolve({}, given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("events", True),
        ("analytics.events", True),
        ("analytics.*", True),
        ("ev*", True),
        ("*.events", True),
        ("sales.*", False),
        ("event", False),
    ],
)
def test_table_entries_match_by_name_or_pattern(pattern: str, matches: bool) -> None:
    options = resolve({"tables": [{"name": pattern, "options": {"max_files": 7}}]})
    assert (options.max_files == 7) is matches


def test_the_first_matching_entry_counts_and_only_in_its_catalog() -> None:
    tables = [
        {"name": "events", "catalog": "other", "options": {"max_files": 1}},
        {"name": "ev*", "options": {"max_files": 2}},
        {"name": "events", "options": {"max_files": 3}},
    ]
    assert resolve({"tables": tables}).max_files == 2


def test_a_strategys_own_numbers_are_used_and_give_way_to_the_caller() -> None:
    strategies = {
        "small_files": {"threshold": "16MB", "target_size": "1GB"},
        "delete_files": {"fragment_ratio_threshold": 0.3},
    }
    settings = {"compaction": {"target_file_size": "256MB", "strategies": strategies}}
    options = resolve(settings)
    assert (options.small_file_threshold, options.target_file_size) == (16 * MB, GB)
    assert options.max_delete_ratio == 0.3
    assert resolve(settings, {"strategy": "full"}).target_file_size == 256 * MB
    assert resolve(settings, {"target_file_size": "2GB"}).target_file_size == 2 * GB


def test_auto_narrows_to_what_is_enabled() -> None:
    off = {"enabled": False}
    assert resolve({"compaction": {"strategies": {"small_files": off}}}).strategy is Strategy.DELETE_FILES
    assert resolve({"compaction": {"strategies": {"delete_files": off}}}).strategy is Strategy.SMALL_FILES
    both = {"compaction": {"strategies": {"small_files": off, "delete_files": off}}}
    with pytest.raises(ConfigurationError, match="switches off every strategy"):
        resolve(both)
    assert resolve(both, {"strategy": "full"}).strategy is Strategy.FULL


def test_parquet_overrides_add_up() -> None:
    settings = {"compaction": {"parquet": {"compression-codec": "zstd", "compression-level": 3}}}
    options = resolve(settings, {"parquet": {"compression-level": "9"}})
    assert options.parquet == {"compression-codec": "zstd", "compression-level": "9"}


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"sort": "a desc"}, "sort", "a desc"),
        ({"sort": True}, "sort", "table"),
        ({"sort_columns": ["a", "b desc"]}, "sort", "a, b desc"),
        ({"sort-order": "a"}, "sort", "a"),
        ({"strategy": "sort"}, "sort", "table"),
        ({"zorder": ["a", "b"]}, "zorder", "a, b"),
        ({"hilbert": "a,b"}, "hilbert", "a,b"),
    ],
)
def test_an_order_may_be_a_text_a_list_or_the_tables_own(given: dict[str, Any], name: str, value: str) -> None:
    options = resolve({}, given)
    assert getattr(options, name) == value
    assert options.strategy is Strategy.SORT


def test_the_narrowest_layer_with_a_strategy_or_an_order_decides_about_both() -> None:
    settings = {"compaction": {"sort": "a"}, "tables": [{"name": "events", "options": {"zorder": "a,b"}}]}
    assert resolve(settings).zorder == "a,b"
    assert resolve(settings).sort is None
    assert resolve(settings, {"sort": "c"}).zorder is None
    full = resolve(settings, {"strategy": "full"})
    assert (full.strategy, full.sort, full.zorder) == (Strategy.FULL, None, None)
    assert resolve({"compaction": {"strategy": "full"}}, {"sort": "a"}).strategy is Strategy.SORT
    off = {"compaction": {"strategies": {"small_files": {"enabled": False}}}}
    assert resolve(off, {"sort": "a"}).strategy is Strategy.SORT
    assert resolve({}, {"sort": False}).strategy is Strategy.AUTO
    assert resolve({}, {"sort_columns": []}).strategy is Strategy.AUTO


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-11-09, 2026-11-12", "2026-11-09, 2026-11-12"),
        (["2026-11-09", date(2026, 11, 12)], "'2026-11-09', '2026-11-12'"),
        (["it's, a", 7, 1.5, True], "'it''s, a', '7', '1.5', true"),
        ([], None),
    ],
)
def test_boundaries_may_be_a_text_or_a_list_of_values(given: Any, expected: str | None) -> None:
    assert resolve({}, {"sort": "a", "boundaries": given}).boundaries == expected


@pytest.mark.parametrize("given", [[None], [["a"]], {"a": 1}])
def test_boundaries_of_other_kinds_are_refused(given: Any) -> None:
    with pytest.raises(BadInput, match="boundaries"):
        resolve({}, {"sort": "a", "boundaries": given})


def test_boundaries_belong_to_the_order_that_is_known_where_they_are_given() -> None:
    settings = {"tables": [{"name": "events", "options": {"sort": "a", "boundaries": "1"}}]}
    assert resolve(settings).boundaries == "1"
    assert resolve(settings, {"boundaries": "2"}).boundaries == "2"
    assert resolve(settings, {"boundaries": "2"}).sort == "a"
    assert resolve(settings, {"sort": "b"}).boundaries is None
    assert resolve(settings, {"strategy": "full"}).boundaries is None
    with pytest.raises(BadInput, match="boundaries need a sort order"):
        resolve({}, {"boundaries": "2"})


def test_an_order_of_a_narrower_layer_wins_over_a_move_to_the_current_spec() -> None:
    settings = {"compaction": {"rewrite_to_current_spec": True}}
    assert resolve(settings).rewrite_to_current_spec
    assert resolve(settings, {"strategy": "full"}).rewrite_to_current_spec
    for asked in ({"sort": "a"}, {"zorder": "a,b"}, {"hilbert": "a,b"}, {"strategy": "sort"}):
        assert not resolve(settings, asked).rewrite_to_current_spec
    entry = {"tables": [{"name": "events", "options": {"sort": "a"}}]}
    assert not resolve({**settings, **entry}).rewrite_to_current_spec
    with pytest.raises(BadInput, match="does not go with rewrite_to_current_spec"):
        resolve(entry, {"rewrite_to_current_spec": True})
    for asked in ({"sort": "a"}, {"strategy": "sort"}):
        with pytest.raises(BadInput, match="does not go with rewrite_to_current_spec"):
            resolve({}, {**asked, "rewrite_to_current_spec": True})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sort": ""}, "The sort order is empty"),
        ({"sort_columns": ["a", "bucket(0, b)"]}, "above 0"),
        ({"zorder": "a"}, "at least 2 columns"),
        ({"hilbert": ["a", "b desc"]}, "plain columns"),
        ({"hilbert": "a,b,c,d,e,f,g,h,i"}, "helps no query"),
    ],
)
def test_an_order_that_no_table_can_have_is_refused_before_a_table_is_loaded(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadSortOrder, match=words):
        resolve({}, given)


def test_orders_of_one_layer_exclude_each_other() -> None:
    with pytest.raises(BadInput, match="exclude each other"):
        resolve({}, {"sort": "a", "zorder": "a,b"})
