"""`tidyberg doctor` finds problems and changes nothing."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.builders.console import Run
from tests.servers.redis import RedisServer
from tidyberg.cli.doctor import check_disk, check_java, java_version
from tidyberg.cli.doctor_store import check_store
from tidyberg.record.redis_health import redis_health
from tidyberg.record.sqlite_file import SqliteFile
from tidyberg.settings.settings import Settings
from tidyberg.settings.store import Store
from tidyberg.testing import Warehouse


def fake_java(directory: Path, said: str) -> dict[str, str]:
    java = directory / "java"
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return {"PATH": str(directory)}


def test_valid_installation_is_ready(run: Run) -> None:
    ran = run("doctor")
    assert ran.status == 0, ran.out
    assert "1 table; analytics.events loads" in ran.out
    document = run("doctor", "--json").json
    assert document["ok"]
    assert {check["name"] for check in document["checks"]} >= {"Python", "Java", "PySpark", "PyArrow", "settings"}


def test_catalog_that_cannot_be_opened_fails_with_a_hint(run: Run, config: Path) -> None:
    config.write_text("catalog: {uri: 'sqlite:////nowhere/catalog.db'}\n")
    ran = run("doctor")
    assert ran.status == 5
    assert "does not exist" in ran.out
    config.write_text("catalgo: {}\n")
    broken = run("doctor")
    assert (broken.status, "did you mean 'catalog'" in broken.out) == (5, True)
    config.unlink()
    nothing = run("doctor")
    assert "none is configured" in nothing.out


def test_a_catalog_without_tables_is_a_warning(run: Run, warehouse: Warehouse) -> None:
    warehouse.catalog.drop_table("analytics.events")
    ran = run("doctor")
    assert (ran.status, "has no tables" in ran.out) == (0, True)


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "ok"),
        ('openjdk version "21" 2023-09-19', "ok"),
        ('java version "1.8.0_402"', "fail"),
        ('openjdk version "11.0.22" 2024-01-16', "fail"),
        ("command failed", "fail"),
    ],
)
def test_java_must_be_17_or_newer(tmp_path: Path, said: str, state: str) -> None:
    check = check_java(Settings(), fake_java(tmp_path, said))
    assert check.state == state
    assert (check.cure is not None and "Install a Java 17" in check.cure) == (state == "fail")


def test_java_home_takes_precedence_over_path(tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    fake_java(home / "bin", 'openjdk version "21.0.1"')
    environ = {**fake_java(tmp_path, 'openjdk version "11.0.1"'), "JAVA_HOME": str(home)}
    found = java_version(environ)
    assert found is not None
    assert found[0] == 21


def test_java_is_not_needed_inline_or_through_connect(tmp_path: Path) -> None:
    nowhere = {"PATH": str(tmp_path)}
    assert check_java(Settings(), nowhere).state == "fail"
    assert check_java(Settings.model_validate({"engine": "inline"}), nowhere).state == "ok"
    assert check_java(Settings.model_validate({"spark": {"connect": "sc://host"}}), nowhere).state == "ok"


def test_store_must_be_writable_and_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "new" / "place" / "tidyberg.db"
    assert [check.state for check in check_store(Store(path=path))] == ["ok"]
    assert not path.parent.exists()
    nowhere = Store(path=Path("/proc/nowhere/tidyberg.db"))
    assert [check.state for check in check_store(nowhere)] == ["fail"], "also for root, who is said to have the right"


def test_store_file_that_accepts_no_writes_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "tidyberg.db"
    SqliteFile(path).close()
    before = path.read_bytes()
    assert [check.state for check in check_store(Store(path=path))] == ["ok"]
    assert path.read_bytes() == before, "nothing of it stays"
    path.write_bytes(b"something else" * 1000)
    (check,) = check_store(Store(path=path))
    assert (check.state, "accepts no writes" in check.found) == ("fail", True)


def test_redis_that_accepts_no_writes_is_reported(redis_server: RedisServer) -> None:
    store = Store(url=SecretStr(redis_server.url))
    with redis_server.client() as client:
        client.config_set("maxmemory", "1")
        found = list(check_store(store))
        client.config_set("maxmemory", "0")
    assert any(check.state == "fail" and "accepts no writes" in check.found for check in found)
    assert not any("accepts no writes" in check.found for check in check_store(store))


def test_redis_must_answer_persist_and_not_evict(
    run: Run, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    with redis_server.client() as client:
        forgetful = run("doctor").out
        client.config_set("appendonly", "yes")
        client.config_set("maxmemory-policy", "allkeys-lru")
        evicting = run("doctor").out
        client.config_set("maxmemory-policy", "noeviction")
        good = run("doctor")
        client.config_set("appendonly", "no")
    assert "appendonly yes" in forgetful
    assert "allkeys-lru" in evicting
    assert "appendonly" not in evicting
    assert (good.status, f"at 127.0.0.1:{redis_server.port}" in good.out) == (0, True)
    assert redis_server.password not in forgetful + evicting + good.out


def test_master_that_accepts_writes_without_replicas_is_a_warning(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with redis_server.client() as client:
        writes_on = redis_health(redis_server.url)
        client.config_set("min-replicas-to-write", 1)
        stops = redis_health(redis_server.url)
        client.config_set("min-replicas-to-write", 0)
    warned = []
    for health in (writes_on, replace(writes_on, replicas=1), replace(stops, replicas=1)):
        monkeypatch.setattr("tidyberg.record.redis_health.redis_health", lambda _, health=health: health)
        found = list(check_store(Store(url=SecretStr(redis_server.url))))
        warned.append(any("min-replicas-to-write" in (check.cure or "") for check in found))
    assert warned == [False, True, False]


def test_wrong_clock_is_a_warning(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(url=SecretStr(redis_server.url))
    monkeypatch.setattr("tidyberg.cli.doctor_store._CLOCKS_MAY_DIFFER_SECONDS", -1.0)
    assert any("clock" in check.found and check.state == "warn" for check in check_store(store))
    monkeypatch.setattr("tidyberg.cli.doctor_store._CLOCKS_MAY_DIFFER_SECONDS", 3600.0)
    assert not any("clock" in check.found for check in check_store(store))


@pytest.mark.parametrize("wrong", ["port", "password"])
def test_unusable_redis_fails_with_a_hint(
    run: Run, redis_server: RedisServer, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = 1 if wrong == "port" else redis_server.port
    monkeypatch.setenv("REDIS_URL", f"redis://:hunter2@127.0.0.1:{port}")
    ran = run("doctor")
    assert ran.status == 5
    assert ("password" if wrong == "password" else "Check that Redis runs") in " ".join(ran.out.split())
    assert "hunter2" not in ran.out


def test_low_disk_space_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_disk(tmp_path).state in ("ok", "warn")
    monkeypatch.setattr("tidyberg.cli.doctor._LITTLE_DISK", 1 << 62)
    assert check_disk(tmp_path).state == "warn"


def test_store_readable_by_others_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.touch(0o600)
    (private,) = check_store(Store(path=path))
    path.chmod(0o644)
    (open_to_all,) = check_store(Store(path=path))
    assert (private.state, open_to_all.state) == ("ok", "warn")
    assert open_to_all.cure == f"Run chmod 600 {path}*"
