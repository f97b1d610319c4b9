"""Gets versitygw, an S3 server, once per machine. Go builds it from its module into the tests' cache."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

VERSION = "v1.8.0"
MODULE = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
BUILD_SECONDS = 900
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidyberg-tests" / f"versitygw-{VERSION}"


class S3ServerMissingError(Exception):
    """No S3 server is available on this machine."""


def s3_binary() -> str:
    _CACHE.mkdir(parents=True, exist_ok=True)
    built = _CACHE / "versitygw"
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs on one machine build once
        if not built.exists():
            _build()
    return str(built)


def _build() -> None:
    go = shutil.which("go")
    if go is None:
        raise S3ServerMissingError("there is no go to build one")
    try:
        done = subprocess.run(
            [go, "install", MODULE],
            env={**os.environ, "GOBIN": str(_CACHE), "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"},
            cwd=_CACHE,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise S3ServerMissingError(str(error)) from error
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[-300:]
        raise S3ServerMissingError(f"go install ended with {done.returncode}: …{said}")
