"""A local Spark starts from an archive of its classes, if there is one. The archive can never fail a job."""

import fcntl
import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.execute.spark_checks import check_results_and_progress
from tidyberg import app
from tidyberg.execute.spark import class_archive, make_class_archive
from tidyberg.execute.spark import engine as spark_module
from tidyberg.execute.spark.class_archive import ClassArchive, find_archive, make_later, submit_options
from tidyberg.execute.spark.engine import SparkEngine
from tidyberg.execute.spark.launch import spark_home
from tidyberg.execute.spark.session import launch_environment
from tidyberg.settings.sections import Spark
from tidyberg.settings.settings import Settings

MAKE = [sys.executable, "-m", "tidyberg.execute.spark.make_class_archive"]
ignore_sockets = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def found() -> ClassArchive:
    archive = find_archive(spark_home())
    assert archive is not None
    return archive


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    """The path of an archive that does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = found()
    archive.directory.mkdir(mode=0o700, parents=True)
    return archive


def put(archive: ClassArchive, content: bytes = b"no archive") -> Path:
    """Puts any content where the archive should be."""
    path = archive.path_of(len(content))
    path.write_bytes(content)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def cache_with_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    subprocess.run(MAKE, env=environment, check=True, timeout=300, capture_output=True)
    return cache


@pytest.fixture
def made(cache_with_archive: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_with_archive))
    return found()


def run_on(engine: SparkEngine, directory: Path, archive: ClassArchive) -> tuple[bool, str]:
    """Returns whether the engine's JVM mapped the archive while it ran tasks, and its output."""
    try:
        check_results_and_progress(engine, directory)
        maps = Path(f"/proc/{engine._spark._gateway.proc.pid}/maps").read_text()
        return f"{archive.directory}/" in maps, (engine._directory() / "spark.log").read_text()
    finally:
        engine.close()


@pytest.mark.spark
@ignore_sockets
def test_spark_starts_from_the_archive_and_says_nothing_of_it(made: ClassArchive, tmp_path: Path) -> None:
    assert made.path is not None
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert made.directory.stat().st_mode & 0o777 == 0o700
    assert sorted(path.suffix for path in made.directory.iterdir()) == [".jsa", ".lock"]
    is_used, log = run_on(SparkEngine("local[1]", class_archive=True), tmp_path, made)
    assert is_used
    assert "cds" not in log
    assert "shared" not in log


@pytest.mark.spark
@ignore_sockets
def test_spark_leaves_the_archive_alone_where_it_is_turned_off(
    made: ClassArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(spark_module, "make_later", asked.append)
    assert not run_on(SparkEngine("local[1]", class_archive=False), tmp_path, made)[0]
    assert asked == []


@pytest.mark.spark
@ignore_sockets
def test_a_file_that_is_not_an_archive_is_ignored(
    empty: ClassArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(spark_module, "make_later", asked.append)
    put(empty)
    _, log = run_on(SparkEngine("local[1]", class_archive=True), tmp_path, empty)
    assert "cds" not in log
    assert "shared" not in log
    assert asked == [empty]  # once, after a job


@pytest.mark.spark
@ignore_sockets
def test_spark_restarts_without_an_archive_that_crashes_its_jvm(
    made: ClassArchive, empty: ClassArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the JVM leaves its report
    assert made.path is not None
    broken = put(empty, made.path.read_bytes()[:1_000_000])
    engine = SparkEngine("local[1]", class_archive=True)
    engine.start_in_background()
    assert not run_on(engine, tmp_path, empty)[0]
    assert not broken.exists()
    assert not empty.is_wanted


def test_a_truncated_archive_is_not_used_but_made_again(empty: ClassArchive) -> None:
    path = put(empty)
    assert submit_options(empty)
    path.write_bytes(b"no arch")
    assert submit_options(empty) == {}
    assert empty.is_wanted


def test_a_half_made_archive_is_never_found(empty: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    left = empty.directory / f"{empty.name}-making-by-somebody-who-was-killed"
    left.mkdir()
    (left / "classes.jsa").write_bytes(b"half")
    assert submit_options(empty) == {}
    monkeypatch.setattr(make_class_archive, "Launch", _fail)
    with pytest.raises(OSError, match="no JVM"):
        make_class_archive.make(empty)
    assert Path(tempfile.gettempdir()).is_dir()  # temporary files of this process lie where they did
    assert list(empty.directory.iterdir()) == []


def _fail(*_: object) -> None:
    raise OSError("no JVM")


def test_a_failed_archive_is_tried_again_after_a_day(empty: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_class_archive, "Launch", _fail)
    monkeypatch.setattr(os, "nice", lambda _: 0)
    with pytest.raises(OSError, match="no JVM"):
        make_class_archive.main()
    assert not empty.is_wanted
    yesterday = time.time() - 25 * 3600
    os.utime(empty.failure, (yesterday, yesterday))
    assert empty.is_wanted


def test_one_process_makes_an_archive(empty: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_class_archive, "make", _fail)
    monkeypatch.setattr(os, "nice", lambda _: 0)
    with empty.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert make_class_archive.main() == 0


def test_a_cache_that_cannot_be_written_is_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    make_later(found())
    assert submit_options(found()) == {}


@pytest.mark.parametrize("cache", ["relative", "/with:colon"])
def test_a_cache_that_cannot_be_named_to_a_jvm_is_not_used(cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    assert find_archive(spark_home()) is None


def test_an_archive_that_others_can_write_is_neither_used_nor_made(
    empty: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(empty)
    empty.directory.chmod(0o777)
    assert submit_options(empty) == {}
    monkeypatch.setattr(subprocess, "Popen", _fail_to_start)
    make_later(empty)
    empty.directory.chmod(0o700)
    assert submit_options(empty)
    path.chmod(0o666)
    assert submit_options(empty) == {}


def _fail_to_start(*_: object, **__: object) -> None:
    raise AssertionError("it was started")


def test_the_setting_turns_it_off() -> None:
    assert app.spark_settings(Settings()).make_engine()._class_archive
    assert not app.spark_settings(Settings(spark=Spark(class_archive=False))).make_engine()._class_archive


def test_clusters_do_not_use_it(empty: ClassArchive) -> None:
    put(empty)
    assert "SPARK_SUBMIT_OPTS" in launch_environment("local[2]", {}, class_archive=True)
    assert "SPARK_SUBMIT_OPTS" not in launch_environment("local[2]", {}, class_archive=False)
    assert "SPARK_SUBMIT_OPTS" not in launch_environment("spark://host:7077", {}, class_archive=True)


def test_options_of_the_user_stay(empty: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dtheirs=1")
    put(empty)
    assert submit_options(empty)["SPARK_SUBMIT_OPTS"].startswith("-Dtheirs=1 ")


def test_another_spark_or_java_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "java"
    for name in ("bin/java", "lib/server/libjvm.so"):
        (home / name).parent.mkdir(parents=True)
        (home / name).touch()
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))
    jar = tmp_path / "spark" / "jars" / "spark-core_2.13-4.1.4.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    names = []
    for changed in (tmp_path / "unrelated", jar, home / "lib/server/libjvm.so"):
        changed.write_text("changed")
        archive = find_archive(tmp_path / "spark")
        assert archive is not None
        names.append(archive.name)
    assert len(set(names)) == 3
    assert all(name.startswith("spark-core_2.13-4.1.4-java-17.0.1-") for name in names)


def test_the_process_that_makes_the_archive_is_waited_for(empty: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a service keeps a zombie, and Python warns about a process that still runs."""
    started: list[int] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self.pid)

    monkeypatch.setattr(class_archive, "_MAKER", "this")  # any module that ends by itself
    monkeypatch.setattr(subprocess, "Popen", Noted)
    make_later(empty)
    gc.collect()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{started[0]}").exists():
        assert time.monotonic() < deadline, "the process ended and nobody waited for it"
        time.sleep(0.02)
