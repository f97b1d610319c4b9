"""Gets a program that is written in Go once per machine. Go builds it from its module into the tests' cache."""

import fcntl
import os
import subprocess
from pathlib import Path

_BUILD_SECONDS = 1800


def go_binary(name: str, module: str, version: str) -> str:
    """Returns the path of the program. The first call on a machine may take minutes."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = home / "tidyberg-tests" / f"{name}-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    built = cache / name
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs on one machine build once
        if not built.exists():
            environ = {**os.environ, "GOBIN": str(cache), "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
            command = ["go", "install", f"{module}@{version}"]
            subprocess.run(command, env=environ, cwd=cache, check=True, timeout=_BUILD_SECONDS)
    return str(built)
