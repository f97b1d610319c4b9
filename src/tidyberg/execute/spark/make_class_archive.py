"""`python -m tidyberg.execute.spark.make_class_archive`: starts Spark once and archives the classes its JVM loaded."""

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tidyberg.execute.engine import APP_NAME
from tidyberg.execute.spark.class_archive import ClassArchive, find_archive, jvm_options
from tidyberg.execute.spark.launch import Launch, changed_environment, spark_home
from tidyberg.execute.spark.run import LocalHandle
from tidyberg.execute.spark.session import engine_launch, session_settings, start_classic

_LOWEST_PRIORITY = 19
_MASTER = "local[1]"
_MEMORY = "1g"
_DUMP_SECONDS = 300.0  # how long the JVM may take to write the archive at the lowest priority
_KEPT = 4  # archives, of about 50 MB each


def main() -> int:
    os.nice(_LOWEST_PRIORITY)
    archive = find_archive(spark_home())
    if archive is None:
        return 1
    archive.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(archive) as is_alone:
        if not is_alone or not archive.is_wanted:
            return 0
        try:
            make(archive)
        except Exception as error:
            archive.failure.write_text(f"{error}\n")
            raise
        archive.failure.unlink(missing_ok=True)
        _remove_old(archive)
    return 0


def make(archive: ClassArchive) -> None:
    """Make the archive. It gets its name when it is complete, so that no JVM finds an incomplete one."""
    with _own_directory(archive) as directory:
        made, log = directory / "classes.jsa", directory / "spark.log"
        settings, environment = engine_launch(_MASTER, _MEMORY, {}, APP_NAME)
        launch = Launch(settings, {**environment, **jvm_options(f"-XX:ArchiveClassesAtExit={made}")}, log)
        context = start_classic(_MASTER, APP_NAME, session_settings(_MASTER, _MEMORY, {}), log, launch)
        LocalHandle(context).warm_up(1)  # the JVM loads the classes of any other job
        context.stop()
        assert launch.process.stdin is not None
        launch.process.stdin.close()  # the JVM ends when this pipe closes
        status = launch.process.wait(_DUMP_SECONDS)
        if status != 0 or not made.exists():
            raise RuntimeError(f"The JVM ended with {status} and left no archive: {log.read_text()[-2000:]}")
        made.chmod(0o600)
        with made.open("rb") as written:
            os.fsync(written.fileno())
        made.rename(archive.path_of(made.stat().st_size))


@contextlib.contextmanager
def _own_directory(archive: ClassArchive) -> Iterator[Path]:
    """Create a directory for temporary files, also Spark's, and remove those of killed processes."""
    prefix = f"{archive.name}-making-"
    for left in archive.directory.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix=prefix, dir=archive.directory) as directory:
        tempfile.tempdir = directory
        try:
            with changed_environment({"TMPDIR": directory, "SPARK_LOCAL_DIRS": directory}):
                yield Path(directory)
        finally:
            tempfile.tempdir = before


@contextlib.contextmanager
def _alone(archive: ClassArchive) -> Iterator[bool]:
    """Whether no other process makes this archive. The operating system releases the lock of a dead process."""
    with archive.lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _remove_old(archive: ClassArchive) -> None:
    """Remove archives of replaced Sparks and Javas. JVMs that use one are not affected."""
    found = sorted(archive.directory.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[_KEPT:]:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
