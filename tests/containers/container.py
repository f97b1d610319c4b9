"""Runs a command in a container of an image, with buildah: as the user of the image, on the network of this machine."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SERVICE, OPERATOR = "iceberg-compaction:latest", "tidyberg-operator:latest"
_ENVIRONMENT = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}


def buildah(*arguments: str) -> str:
    done = subprocess.run(
        ["buildah", *arguments], env={**os.environ, **_ENVIRONMENT}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Container:
    """A container of an image. Its root file system belongs to root, and its commands run as another user."""

    def __init__(self, image: str) -> None:
        self.image = image
        self.name = buildah("from", "--pull-never", image)
        self.config: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", image))["OCIv1"]["config"]

    def close(self) -> None:
        buildah("rm", self.name)

    def command(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str] | None = None,
        mounts: Mapping[Path, str] | None = None,
    ) -> list[str]:
        """Returns the command line on this machine."""
        variables = [part for name, value in (environ or {}).items() for part in ("--env", f"{name}={value}")]
        volumes = [part for here, there in (mounts or {}).items() for part in ("--volume", f"{here}:{there}")]
        # Docker and Kubernetes make the name of a container resolvable, which Spark needs. buildah does not.
        known = ["--hostname", "localhost", "--user", self.config["User"]]
        return ["buildah", "run", *known, *variables, *volumes, self.name, "--", *arguments]

    def run(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(arguments, **more),
            env={**os.environ, **_ENVIRONMENT},
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self, *arguments: str, log: Path, **more: Any) -> subprocess.Popen[bytes]:
        with log.open("wb") as opened:
            return subprocess.Popen(
                self.command(arguments, **more), env={**os.environ, **_ENVIRONMENT}, stdout=opened, stderr=opened
            )


def size_of(image: str) -> int:
    """Returns the bytes of all files of the image."""
    container = Container(image)
    try:
        used = subprocess.run(
            ["du", "-sbx", buildah("mount", container.name)], capture_output=True, text=True, check=True
        )
        return int(used.stdout.split()[0])
    finally:
        container.close()
