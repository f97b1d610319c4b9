"""Finds the archive of Spark's classes (AppCDS). With it, the JVM of a local Spark needs half the CPU time to start.

The archive is in the user's cache directory. `make_later` starts a process of low priority that makes it and outlives
the first job. This has three advantages: no job waits for it, the installation need not know which Java will run, and
a process that fails or is killed does no harm. A JVM ignores an archive for other jars or another Java. It may crash
because of a damaged archive; then Spark is started again without it.
"""

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_MAKER = "tidyberg.execute.spark.make_class_archive"
_RETRY_SECONDS = 24 * 3600.0  # after a failure
_CLASSPATH = (
    "SPARK_CONF_DIR",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
)  # the class path depends on these too


@dataclass(frozen=True)
class ClassArchive:
    """The location of an archive. Each pair of Spark and Java has one."""

    directory: Path
    name: str

    @property
    def path(self) -> Path | None:
        """The archive, if it is complete and only this user can have written it, because it contains code.

        Its name ends with its size, because a truncated archive crashes the JVM.
        """
        if not _is_private(self.directory, stat.S_ISDIR):
            return None
        for path in self.directory.glob(f"{self.name}-*.jsa"):
            if _is_private(path, stat.S_ISREG) and path == self.path_of(path.stat().st_size):
                return path
        return None

    def path_of(self, size: int) -> Path:
        return self.directory / f"{self.name}-{size}.jsa"

    @property
    def failure(self) -> Path:
        """This file exists if the archive could not be made."""
        return self.directory / f"{self.name}.failed"

    @property
    def lock(self) -> Path:
        """The process that makes the archive holds this lock."""
        return self.directory / f"{self.name}.lock"

    def discard(self) -> None:
        """Remove the archive after a JVM crashed because of it. It is not made again for a day."""
        with contextlib.suppress(OSError):
            if self.path is not None:
                self.path.unlink(missing_ok=True)
            self.failure.write_text("A JVM crashed over the archive.\n")

    @property
    def is_wanted(self) -> bool:
        if self.path is not None:
            return False
        try:
            return time.time() - self.failure.stat().st_mtime > _RETRY_SECONDS
        except OSError:
            return True


def find_archive(spark_home: Path) -> ClassArchive | None:
    """Return the location of the archive for this Spark and its Java, or None if there can be no archive."""
    try:
        cache = _cache_directory(os.environ)
        java = _java_home(os.environ)
        # In the JVM's option, a colon ends the name.
        if cache is None or java is None or ":" in str(cache):
            return None
        jars = sorted((spark_home / "jars").glob("*.jar"))
        core = next(jar.stem for jar in jars if jar.name.startswith("spark-core_"))
        digest = hashlib.sha256()
        for part in (*(_identity(file) for file in (java / "lib" / "server" / "libjvm.so", *jars)),
                     *(os.environ.get(name, "") for name in _CLASSPATH)):  # fmt: skip
            digest.update(f"{part}\n".encode())
        version = _java_version(java)
    except (OSError, StopIteration, RuntimeError):
        return None
    return ClassArchive(cache / "tidyberg", f"{core}-java-{version}-{digest.hexdigest()[:16]}")


def submit_options(archive: ClassArchive | None) -> dict[str, str]:
    """Return the environment variables that make Spark's launcher use the archive."""
    path = archive.path if archive is not None else None
    return {} if path is None else jvm_options(f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:cds*=off")


def uses_archive(environment: Mapping[str, str]) -> bool:
    return "-XX:SharedArchiveFile=" in environment.get("SPARK_SUBMIT_OPTS", "")


def jvm_options(*options: str) -> dict[str, str]:
    """Add JVM options to those of the user. `spark.driver.extraJavaOptions` stays unchanged."""
    quoted = " ".join('"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"' for option in options)
    return {"SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {quoted}".strip()}


def make_later(archive: ClassArchive | None) -> None:
    """Start a process that makes the archive, unless it exists. Nobody waits for the process."""
    if archive is None or not archive.is_wanted:
        return
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        archive.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(archive.directory, stat.S_ISDIR):
            return
        maker = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", _MAKER],
            cwd=archive.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it outlives the terminal
        )
        # A thread waits for the process, so that a service keeps no zombie and Python does not warn.
        threading.Thread(target=maker.wait, name="class archive", daemon=True).start()


def _cache_directory(environ: Mapping[str, str]) -> Path | None:
    given = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return given if given.is_absolute() else None


def _java_home(environ: Mapping[str, str]) -> Path | None:
    """Return the home of the Java that Spark's scripts will find."""
    home = environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else shutil.which("java")
    return None if java is None else Path(java).resolve().parents[1]


def _java_version(home: Path) -> str:
    for line in (home / "release").read_text(errors="replace").splitlines():
        name, _, value = line.partition("=")
        if name == "JAVA_VERSION":
            return value.strip().strip('"')
    return "unknown"


def _identity(file: Path) -> tuple[str, int, int]:
    found = file.stat()
    return str(file), found.st_size, found.st_mtime_ns


def _is_private(path: Path, is_kind: Callable[[int], bool]) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return is_kind(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
