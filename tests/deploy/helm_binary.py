"""Gets helm once per machine. Go builds it from its module into the tests' cache, which takes minutes."""

import fcntl
import os
import subprocess
from pathlib import Path

VERSION = "v3.22.0"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidyberg-tests" / f"helm-{VERSION}"


def helm_binary() -> str:
    _CACHE.mkdir(parents=True, exist_ok=True)
    built = _CACHE / "helm"
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs on one machine build once
        if not built.exists():
            environ = {**os.environ, "GOBIN": str(_CACHE), "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
            module = f"helm.sh/helm/v3/cmd/helm@{VERSION}"
            subprocess.run(["go", "install", module], env=environ, cwd=_CACHE, check=True, timeout=1800)
    return str(built)
