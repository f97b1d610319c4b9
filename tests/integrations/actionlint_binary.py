"""Gets actionlint once per machine. Go builds it from its module into the tests' cache."""

import fcntl
import os
import subprocess
from pathlib import Path

VERSION = "v1.7.12"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidyberg-tests" / f"actionlint-{VERSION}"


def actionlint_binary() -> str:
    _CACHE.mkdir(parents=True, exist_ok=True)
    built = _CACHE / "actionlint"
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs on one machine build once
        if not built.exists():
            environ = {**os.environ, "GOBIN": str(_CACHE), "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
            module = f"github.com/rhysd/actionlint/cmd/actionlint@{VERSION}"
            subprocess.run(["go", "install", module], env=environ, cwd=_CACHE, check=True, timeout=1800)
    return str(built)
