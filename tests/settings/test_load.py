"""The sources of settings, their order, and the errors for mistakes in them."""

from pathlib import Path

import pytest

from tests.builders.settings_examples import BASIC_EXAMPLE, SERVICE_EXAMPLE, TABLES_EXAMPLE
from tidyberg.errors import ConfigurationError
from tidyberg.model.options import Prices, Strategy, VerifyMode
from tidyberg.model.sizes import GB, MB
from tidyberg.settings.load import find_config, load_settings
from tidyberg.settings.settings import Settings


def load(directory: Path, text: str, **environ: str) -> Settings:
    path = directory / "tidyberg.yaml"
    path.write_text(text)
    return load_settings(path, environ=environ)


def test_service_example_of_the_contract_is_accepted_unchanged(tmp_path: Path) -> None:
    settings = load(tmp_path, SERVICE_EXAMPLE)
    assert (settings.server.host, settings.server.port) == ("0.0.0.0", 8080)
    assert settings.known_catalogs["default"].reveal() == {"type": "rest", "uri": "http://catalog:8181"}
    assert settings.compaction.target_file_size == GB
    assert settings.compaction.max_parallelism == 4
    assert settings.scheduler.enabled
    assert settings.scheduler.default_schedule == "0 */6 * * *"


def test_basic_example_of_the_contract_is_accepted_unchanged(tmp_path: Path) -> None:
    environ = {"CATALOG_URI": "http://catalog:8181", "S3_BUCKET": "lake", "AWS_REGION": "eu-west-1"}
    settings = load(tmp_path, BASIC_EXAMPLE, **environ)
    assert settings.known_catalogs["default"].reveal()["uri"] == "http://catalog:8181"
    assert settings.storage is not None
    assert settings.storage.sealed() == {"warehouse": "s3://lake", "s3.region": "eu-west-1"}
    small, deletes = settings.compaction.strategies.small_files, settings.compaction.strategies.delete_files
    assert (small.threshold, small.target_size) == (32 * MB, GB)
    assert deletes.fragment_ratio_threshold == 0.1


def test_tables_example_of_the_contract_is_accepted_unchanged(tmp_path: Path) -> None:
    events, dimensions = load(tmp_path, TABLES_EXAMPLE).tables
    assert events.strategy is Strategy.TIME_SERIES
    assert events.schedule == "*/30 * * * *"
    assert events.options.given() == {"target_file_size": 512 * MB, "where": "date >= current_date - 7"}
    assert dimensions.options.target_file_size == GB


@pytest.mark.parametrize("example", [SERVICE_EXAMPLE, BASIC_EXAMPLE, TABLES_EXAMPLE])
def test_config_yaml_of_the_contract_is_found(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "none")}
    Path("config.yaml").write_text(example)
    assert find_config(None, environ) == Path("config.yaml")
    Path("tidyberg.yaml").touch()
    assert find_config(None, environ) == Path("tidyberg.yaml")


@pytest.mark.parametrize("text", ["logging: {level: info}\nserver: {port: 1}\n", "a: [", "- catalog\n", ""])
def test_config_yaml_of_another_program_is_left_alone(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(text)
    assert find_config(None, {"XDG_CONFIG_HOME": str(tmp_path / "none")}) is None


def test_explicit_path_wins_over_variable_over_working_directory_over_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "config"
    (home / "tidyberg").mkdir(parents=True)
    by_home, by_name, explicit = home / "tidyberg" / "tidyberg.yaml", tmp_path / "b.yaml", tmp_path / "a.yaml"
    environ = {"XDG_CONFIG_HOME": str(home)}
    assert find_config(None, environ) is None
    by_home.touch()
    assert find_config(None, environ) == by_home
    Path("tidyberg.yaml").touch()
    assert find_config(None, environ) == Path("tidyberg.yaml")
    by_name.touch()
    environ["TIDYBERG_CONFIG"] = str(by_name)
    assert find_config(None, environ) == by_name
    explicit.touch()
    assert find_config(explicit, environ) == explicit


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"--config names .*absent\.yaml"):
        load_settings(tmp_path / "absent.yaml", environ={})
    with pytest.raises(ConfigurationError, match=r"\$TIDYBERG_CONFIG names"):
        load_settings(environ={"TIDYBERG_CONFIG": str(tmp_path / "absent.yaml")})


def test_unset_variables_are_named_with_their_lines(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"S3_BUCKET \(line 8\), AWS_REGION \(line 9\)"):
        load(tmp_path, BASIC_EXAMPLE, CATALOG_URI="http://catalog")


def test_variables_have_defaults_and_an_escape(tmp_path: Path) -> None:
    text = "catalog: {uri: '${HOST:-http://x}/v1', warehouse: '$${kept}'}\nserver: {port: '${PORT:-9}'}\n"
    settings = load(tmp_path, text, PORT="81")
    assert settings.server.port == 81
    assert settings.known_catalogs["default"].reveal() == {"uri": "http://x/v1", "warehouse": "${kept}"}
    assert load(tmp_path, text, HOST="", PORT="").server.port == 9


def test_environment_overrides_the_file_down_to_single_keys(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        SERVICE_EXAMPLE,
        TIDYBERG_COMPACTION__TARGET_FILE_SIZE="256MB",
        TIDYBERG_SPARK__CONF='{"spark.ui.enabled": "false"}',
        TIDYBERG_ENGINE="inline",
    )
    assert settings.compaction.target_file_size == 256 * MB
    assert settings.compaction.max_parallelism == 4
    assert settings.spark.conf == {"spark.ui.enabled": "false"}
    assert settings.engine == "inline"


def test_catalogs_can_be_given_by_variables_alone() -> None:
    settings = load_settings(environ={"TIDYBERG_CATALOGS__PROD__URI": "http://prod"})
    assert settings.known_catalogs["prod"].reveal() == {"uri": "http://prod"}


def test_catalog_uri_alone_is_enough_to_start() -> None:
    environ = {"CATALOG_URI": "http://catalog", "CATALOG_TOKEN": "t0ken", "CATALOG_WAREHOUSE": "w"}
    catalog = load_settings(environ=environ).known_catalogs["default"]
    assert catalog.reveal() == {"uri": "http://catalog", "token": "t0ken", "warehouse": "w"}


def test_a_catalog_in_the_file_wins_over_catalog_uri(tmp_path: Path) -> None:
    settings = load(tmp_path, SERVICE_EXAMPLE, CATALOG_URI="http://other")
    assert settings.known_catalogs["default"].reveal()["uri"] == "http://catalog:8181"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("compaction:\n  target_file_siz: 1GB\n", "line 2: .*did you mean 'target_file_size'?"),
        ("catalog:\n  uri: http://x\n  wharehouse: w\n", "did you mean 'warehouse'?"),
        ("compaction:\n  strategies:\n    small_files: {treshold: 3}\n", "line 3: .*did you mean 'threshold'?"),
        ("compacton: {}\n", "line 1: 'compacton' is not a setting; did you mean 'compaction'?"),
        ("compaction:\n\n  min_file_size: 12XB\n", "line 3: compaction.min_file_size: '12XB' is not a size"),
        ("compaction: {max_cost: -1}\n", "'compaction.max_cost' should be greater than or equal to 0"),
        ("compaction: {strategy: fast}\n", "'fast' is not a strategy"),
        ("compaction: {where: a, partition_filter: b}\n", "says the same as another key"),
        ("tables: [{name: x, schedule: hourly}]\n", "'hourly' is not a cron line"),
        ("tables: [{schedule: '* * * * *'}]\n", "'tables[0].name' is missing"),
        ("tables:\n  - name: x\n    options: {maxfiles: 3}\n", "line 3: .*'tables[0].options.maxfiles' .*'max_files'?"),
        ("timezone: Mars/Phobos\n", "'Mars/Phobos' is not a time zone"),
        ("engine: flink\n", "'engine' should be 'spark', 'inline' or 'auto'"),
        ("engine: spark\nengine: inline\n", "line 2: 'engine' is given twice"),
        ("catalog: {uri: http://a}\ncatalogs: {default: {uri: http://b}}\n", "'default' is given twice"),
        ("a: [\n", "is not valid YAML"),
        ("- a\n", "must hold a mapping"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_with_their_place_and_a_likely_fix(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, text)
    assert all(part in str(caught.value) for part in said.split(".*"))


def test_unknown_variables_of_ours_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"TIDYBERG_ENGIN is not a setting\. Did you mean TIDYBERG_ENGINE"):
        load_settings(environ={"TIDYBERG_ENGIN": "spark"})
    with pytest.raises(ConfigurationError, match=r"Environment: 'compaction.max_fils' .*'max_files'"):
        load_settings(environ={"TIDYBERG_COMPACTION__MAX_FILS": "3"})
    with pytest.raises(ConfigurationError, match="Lists and maps are written as JSON"):
        load_settings(environ={"TIDYBERG_TABLES": "events"})


def test_reserved_variables_are_no_settings(tmp_path: Path) -> None:
    settings = load_settings(environ={"TIDYBERG_HOME": str(tmp_path), "TIDYBERG_DEBUG": "1"})
    assert settings.store.path == tmp_path / "tidyberg.db"


def test_redis_url_alone_is_enough_for_a_shared_store() -> None:
    store = load_settings(environ={"REDIS_URL": "redis://redis:6379/1"}).store
    assert store.url is not None
    assert (store.url.get_secret_value(), store.prefix) == ("redis://redis:6379/1", "tidyberg:")


@pytest.mark.parametrize(("text", "url"), [("url: redis://own", "redis://own"), ("path: jobs.db", None)])
def test_a_store_in_the_file_wins_over_redis_url(tmp_path: Path, text: str, url: str | None) -> None:
    store = load(tmp_path, f"store: {{{text}}}\n", REDIS_URL="redis://other").store
    assert (store.url and store.url.get_secret_value()) == url


@pytest.mark.parametrize(
    "url", ["http://redis", "redis:6379", "redis://", "redis://:pass", "redis://host:port", "unix://", "rediss:///0"]
)
def test_an_address_that_is_not_of_redis_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"store\.url.*redis://host:6379/0"):
        load_settings(environ={"REDIS_URL": url})


def test_addresses_of_redis() -> None:
    for url in ("redis://localhost", "rediss://:pw@[::1]:6380/0", "unix:///run/redis.sock?db=1"):
        assert load_settings(environ={"TIDYBERG_STORE__URL": url}).store.url is not None


def test_the_store_is_in_the_state_directory_by_default(tmp_path: Path) -> None:
    settings = load_settings(environ={"XDG_STATE_HOME": str(tmp_path)})
    assert settings.store.path == tmp_path / "tidyberg" / "tidyberg.db"
    assert load(tmp_path, "store: {path: ~/jobs.db}\n").store.path == Path.home() / "jobs.db"


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "tidyberg.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_settings(path, environ={})


def test_without_any_source_the_defaults_hold() -> None:
    settings = load_settings(environ={})
    assert settings.engine == "spark"
    assert settings.spark.master == "local[*]"
    assert settings.verify is VerifyMode.COUNTS
    assert settings.prices.to_prices() == Prices()
    assert settings.timezone == "UTC"


def test_catalogs_by_name_under_catalog_are_catalogs(tmp_path: Path) -> None:
    settings = load(tmp_path, "catalog:\n  lab:\n    uri: http://a\ncatalogs:\n  more:\n    uri: http://b\n")
    assert settings.catalog is None
    assert {name: catalog.uri for name, catalog in settings.catalogs.items()} == {"lab": "http://a", "more": "http://b"}
    one = load(tmp_path, "catalog:\n  uri: http://a\n  properties: {a: b}\n  auth: {type: noop}\n")
    assert one.catalog is not None
    nested = load(tmp_path, "catalog:\n  properties: {uri: http://a}\n")
    assert nested.catalog is not None
    assert nested.catalog.reveal() == {"uri": "http://a"}


def test_mistakes_in_named_catalogs_are_reported_with_their_lines(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"line 4: catalogs\.lab: 'tokn' is not a property; did you mean"):
        load(tmp_path, "engine: inline\ncatalog:\n\n  lab:\n    uri: http://a\n    tokn: x\n")
    with pytest.raises(ConfigurationError, match="catalog 'lab' is given twice"):
        load(tmp_path, "catalog:\n  lab:\n    uri: http://a\ncatalogs:\n  lab:\n    uri: http://b\n")


def test_variables_reach_catalogs_by_name(tmp_path: Path) -> None:
    settings = load(tmp_path, "catalog:\n  lab:\n    uri: http://a\n", TIDYBERG_CATALOG__LAB__WAREHOUSE="file:///here")
    assert settings.catalogs["lab"].warehouse == "file:///here"
