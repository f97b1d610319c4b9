"""Gets a Redis server once per machine: from PATH, or else from Debian's package, unpacked into the tests' cache."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

DOWNLOAD_SECONDS = 300
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidyberg-tests" / "redis"
# The server, and the libraries that a small system may lack. Their names differ between releases.
_PACKAGES = ("redis-server", "redis-tools", "libatomic1", "libjemalloc2", "liblzf1", "libssl3", "libssl3t64")


class RedisMissingError(Exception):
    """No Redis server is available on this machine."""


@dataclass(frozen=True)
class RedisBinary:
    path: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> bool:
        try:
            _run([self.path, "--version"], self.environment)
        except (OSError, subprocess.SubprocessError, RedisMissingError):
            return False
        return True


def redis_binary() -> RedisBinary:
    installed = _on_path()
    if installed is not None:
        return installed
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs on one machine download once
        unpacked = _unpacked()
        if unpacked.runs:
            return unpacked
        problems = []
        for get in (_unpack_packages, _unpack_packages_of_fresh_lists, _install):
            try:
                get()
            except (OSError, subprocess.SubprocessError, RedisMissingError) as error:
                problems.append(str(error))
            found = unpacked if unpacked.runs else _on_path()
            if found is not None:
                return found
    raise RedisMissingError("; ".join(problems) or "the unpacked server does not run")


def _on_path() -> RedisBinary | None:
    found = shutil.which("redis-server")
    return RedisBinary(found) if found else None


def _unpacked() -> RedisBinary:
    root = _CACHE / "root"
    libraries = [root / place / f"{os.uname().machine}-linux-gnu" for place in ("usr/lib", "lib")]
    environment = {"LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))}
    return RedisBinary(str(root / "usr" / "bin" / "redis-server"), environment)


def _unpack_packages(*options: str) -> None:
    """Downloads and unpacks the packages. It needs no root rights and does not change the system."""
    packages = _CACHE / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    packages.mkdir()
    problems = []
    for package in _PACKAGES:
        try:
            _run(["apt-get", "-o", "APT::Sandbox::User=", *options, "download", package], place=packages)
        except RedisMissingError as error:
            problems.append(str(error))
    for archive in packages.glob("*.deb"):
        _run(["dpkg", "-x", str(archive), str(_CACHE / "root")])
    shutil.rmtree(packages)
    if not Path(_unpacked().path).exists():
        raise RedisMissingError(problems[0])


def _unpack_packages_of_fresh_lists() -> None:
    """Does the same with new package lists: those of the system may be old, or were removed to make an image small."""
    state = _CACHE / "apt"
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    options = ("-o", f"Dir::State::Lists={state / 'lists'}", "-o", f"Dir::Cache={state}")
    _run(["apt-get", "-o", "APT::Sandbox::User=", *options, "update"])
    _unpack_packages(*options)
    shutil.rmtree(state)


def _install() -> None:
    """Installs the package. This changes the system, so it is done only in continuous integration."""
    if os.environ.get("CI") != "true" or os.geteuid() != 0:
        raise RedisMissingError("it is not installed on a person's machine")
    _run(["apt-get", "update"])
    _run(["apt-get", "install", "-y", "--no-install-recommends", "redis-server"])


def _run(command: Sequence[str], environment: dict[str, str] | None = None, *, place: Path | None = None) -> None:
    done = subprocess.run(
        command,
        cwd=place,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_SECONDS,
        check=False,
    )
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[-200:]
        raise RedisMissingError(f"{' '.join(command[:1])} ended with {done.returncode}: …{said}")
