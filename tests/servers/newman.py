"""Gets newman, which runs Postman collections, once per machine. npm installs it into the tests' cache."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

VERSION = "6.2.2"
INSTALL_SECONDS = 300
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidyberg-tests" / f"newman-{VERSION}"


class NewmanMissingError(Exception):
    """newman cannot be installed on this machine."""


def newman() -> str:
    """Returns the path of the program."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise NewmanMissingError("there is no npm to install it")
    _CACHE.mkdir(parents=True, exist_ok=True)
    program = _CACHE / "node_modules" / ".bin" / "newman"
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs on one machine install once
        if not program.exists():
            _install(npm)
    return str(program)


def _install(npm: str) -> None:
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(_CACHE), f"newman@{VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise NewmanMissingError(str(error)) from error
    if done.returncode:
        raise NewmanMissingError(f"npm ended with {done.returncode}: …{' '.join(done.stderr.split())[-300:]}")
