"""Finds the archive of Spark's classes (AppCDS) that lets a local Spark's JVM start in half the CPU time.

The archive lies in the user's own cache directory. `make_later` has it made by a process of low priority that outlives
the first job, for three reasons: no job waits for it, no installation step has to know which Java will run, and a
process that fails or is killed halfway harms nobody. A JVM ignores an archive of other jars or of another Java. It may
crash over a damaged one; then Spark is started again without.
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
_CLASSPATH = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")  # where it comes from too


@dataclass(frozen=True)
class ClassArchive:
    """The place of one archive: there is one for each Spark and Java."""

    directory: Path
    name: str

    @property
    def path(self) -> Path | None:
        """The archive, if it is whole and nobody but this user can have written it: it holds code.

        Its name ends with its size, for a JVM crashes over one that was cut off.
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
        """Present where it could not be made."""
        return self.directory / f"{self.name}.failed"

    @property
    def lock(self) -> Path:
        """Held by the process that makes it."""
        return self.directory / f"{self.name}.lock"

    def discard(self) -> None:
        """Take it away, for a day at least: a JVM crashed over it."""
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
    """Where the archive for this Spark and the Java that will run it is or should be; None where there can be none."""
    try:
        cache = _cache_directory(os.environ)
        java = _java_home(os.environ)
        # The JVM takes a colon for the end of the name.
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
    """What tells Spark's launcher to use the archive, as a change of the environment."""
    path = archive.path if archive is not None else None
    return {} if path is None else jvm_options(f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:cds*=off")


def uses_archive(environment: Mapping[str, str]) -> bool:
    return "-XX:SharedArchiveFile=" in environment.get("SPARK_SUBMIT_OPTS", "")


def jvm_options(*options: str) -> dict[str, str]:
    """Added to those that users set there; `spark.driver.extraJavaOptions` stays theirs."""
    quoted = " ".join('"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"' for option in options)
    return {"SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {quoted}".strip()}


def make_later(archive: ClassArchive | None) -> None:
    """Have it made by a process that nobody waits for, unless it is there."""
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
            start_new_session=True,  # it does not end with the terminal
        )
        # Waits for it, so that a service keeps no zombie and Python does not warn of a process nobody waited for.
        threading.Thread(target=maker.wait, name="class archive", daemon=True).start()


def _cache_directory(environ: Mapping[str, str]) -> Path | None:
    given = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return given if given.is_absolute() else None


def _java_home(environ: Mapping[str, str]) -> Path | None:
    """Of the Java that Spark's scripts will find."""
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
