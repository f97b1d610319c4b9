"""config.json loads as it is printed, with comments, and a profile chooses the thresholds of an environment."""

from pathlib import Path

import pytest

from tidyberg.errors import ConfigurationError
from tidyberg.settings.json_comments import plain_json
from tidyberg.settings.load import load_settings
from tidyberg.settings.operations import IcebergCompaction, IcebergSettings

PRINTED = """\
"iceberg": {
  "write": {
    "target_file_size_mb": 128,        // Target file size for writes
    "compression_codec": "zstd",        // Compression algorithm
    "parquet_row_group_size": 8192      // Parquet row group size
  },
  "compaction": {
    "enabled": true,                           // Enable opportunistic checking
    "small_file_threshold_mb": 64,             // Files smaller than this are "small"
    "min_files_to_compact": 3,                 // Min small files before recommending compaction
    "opportunistic_check_interval": 5,         // Check every Nth write
    "max_files_per_compaction": 100            // Max files to compact at once
  }
}
"""


def compaction(directory: Path, text: str, **environ: str) -> IcebergCompaction:
    path = directory / "config.json"
    path.write_text(text)
    return load_settings(environ={"TIDYBERG_CONFIG": str(path), **environ}).iceberg.compaction


def test_the_printed_block_loads_verbatim(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for text in (PRINTED, "{" + PRINTED + "}", "// settings\n{\n" + PRINTED + "\n}\n"):
        path.write_text(text)
        assert load_settings(path, environ={}).iceberg == IcebergSettings()


@pytest.mark.parametrize(
    ("profile", "interval", "files"), [("development", 5, 3), ("staging", 75, 15), ("production", 100, 20)]
)
def test_a_profile_sets_the_thresholds_of_its_environment(
    tmp_path: Path, profile: str, interval: int, files: int
) -> None:
    found = compaction(tmp_path, PRINTED, TIDYBERG_PROFILE=profile)
    assert (found.opportunistic_check_interval, found.min_files_to_compact) == (interval, files)
    assert found.small_file_threshold_mb == 64


def test_a_profile_of_the_file_wins_over_the_built_in_one_and_variables_win_over_both(tmp_path: Path) -> None:
    text = PRINTED.rstrip() + ', "profiles": {"production": {"iceberg": {"compaction": {"min_files_to_compact": 7}}}}'
    found = compaction(tmp_path, text, TIDYBERG_PROFILE="production")
    assert (found.opportunistic_check_interval, found.min_files_to_compact) == (100, 7)
    assert compaction(tmp_path, text).min_files_to_compact == 3
    variable = {"TIDYBERG_ICEBERG__COMPACTION__MIN_FILES_TO_COMPACT": "9"}
    assert compaction(tmp_path, text, TIDYBERG_PROFILE="production", **variable).min_files_to_compact == 9


def test_a_file_may_have_profiles_of_other_names(tmp_path: Path) -> None:
    text = '{"profiles": {"load-test": {"iceberg": {"compaction": {"enabled": false}}}}}'
    assert compaction(tmp_path, text, TIDYBERG_PROFILE="load-test").enabled is False


@pytest.mark.parametrize(
    ("text", "profile", "words"),
    [
        (PRINTED, "prod", "'prod', which does not exist. Known: development, production, staging"),
        ('{"profiles": {"x": 5}}', "x", "profiles.x should be an object"),
        ('{"profiles": {"x": {"profiles": {}}}}', "x", "cannot have profiles"),
        ('{"profiles": {"x": {"iceberg": {"nope": 1}}}}', "x", "'iceberg.nope' is not a setting"),
    ],
)
def test_a_wrong_profile_is_refused(tmp_path: Path, text: str, profile: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        compaction(tmp_path, text, TIDYBERG_PROFILE=profile)
    assert words in str(raised.value)


def test_an_error_names_the_line_below_comments(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"line 10: 'iceberg.compaction.min_files_to_compact' should be greater"
    ):
        compaction(tmp_path, PRINTED.replace('to_compact": 3', 'to_compact": 0'))


def test_slashes_inside_texts_are_no_comments() -> None:
    assert plain_json('{"uri": "http://x//y", "q": "\\"//"} // end') == '{"uri": "http://x//y", "q": "\\"//"}'
