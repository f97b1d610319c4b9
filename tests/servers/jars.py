"""Gets a Java server's jars once per machine: with Ivy, which PySpark contains, or with Maven if Ivy fails."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pyspark

DOWNLOAD_SECONDS = 600
# For a JVM that lives for some tests: it never earns back the time that the second compiler takes.
FAST_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class JarsMissingError(Exception):
    """The jars are not in the cache and could not be fetched."""


@dataclass(frozen=True)
class Module:
    organisation: str
    name: str
    version: str
    classifiers: tuple[str, ...] = ("",)  # "" is the main jar
    transitive: bool = True

    @property
    def jar_names(self) -> list[str]:
        return [f"{self.name}-{self.version}{'-' if c else ''}{c}.jar" for c in self.classifiers]


def classpath(name: str, modules: Sequence[Module]) -> str:
    """Returns the classpath of these modules and all their dependencies, from the user's cache."""
    key = hashlib.sha256(repr(tuple(modules)).encode()).hexdigest()[:12]
    directory = _cache_directory() / f"{name}-{key}"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs on one machine download once
        found = _complete(directory / "classpath", modules)
        if found is not None:
            return found
        problems = []
        for fetch in (_by_ivy, _by_maven):
            try:
                fetch(directory, modules)
            except (OSError, subprocess.SubprocessError, JarsMissingError) as error:
                problems.append(str(error))
                continue
            found = _complete(directory / "classpath", modules)
            if found is not None:
                return found
            problems.append(f"{fetch.__name__[4:]} did not find every jar")
    raise JarsMissingError("; ".join(problems))


def _cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidyberg-tests"


def _complete(path: Path, modules: Sequence[Module]) -> str | None:
    """Returns the classpath that an earlier run saved, or None unless all of its jars still exist."""
    if not path.is_file():
        return None
    text = path.read_text().strip()
    jars = [Path(entry) for entry in text.split(os.pathsep)]
    wanted = {jar for module in modules for jar in module.jar_names}
    return text if wanted <= {jar.name for jar in jars} and all(jar.is_file() for jar in jars) else None


def _by_ivy(directory: Path, modules: Sequence[Module]) -> None:
    """Fetches the jars with Ivy's built-in settings, which know where to look."""
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    description = directory / "ivy.xml"
    description.write_text(_ivy_description(modules))
    command = [java_executable(), "-jar", str(ivy), "-ivy", str(description), "-cache", str(directory / "jars")]
    _run([*command, "-cachepath", str(directory / "classpath")])


def _by_maven(directory: Path, modules: Sequence[Module]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissingError("there is no mvn to try instead")
    project = directory / "pom.xml"
    project.write_text(_maven_project(modules))
    output = f"-Dmdep.outputFile={directory / 'classpath'}"
    _run([maven, "-q", "-B", "-f", str(project), "dependency:build-classpath", output])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[-300:]
        raise JarsMissingError(f"{Path(command[0]).name} ended with {done.returncode}: …{said}")


def java_executable() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        raise JarsMissingError("there is no java")
    return found


def _ivy_description(modules: Sequence[Module]) -> str:
    lines = [
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
        '<info organisation="tidyberg" module="tests"/>',
        '<configurations><conf name="default"/></configurations>',
        "<dependencies>",
    ]
    for module in modules:
        lines.append(
            f"<dependency org={quoteattr(module.organisation)} name={quoteattr(module.name)} "
            f'rev={quoteattr(module.version)} transitive="{str(module.transitive).lower()}" conf="default->default">'
        )
        for classifier in module.classifiers:
            qualified = f" m:classifier={quoteattr(classifier)}" if classifier else ""
            lines.append(f'<artifact name={quoteattr(module.name)} type="jar" ext="jar"{qualified}/>')
        lines.append("</dependency>")
    return "\n".join([*lines, "</dependencies>", "</ivy-module>", ""])


def _maven_project(modules: Sequence[Module]) -> str:
    lines = [
        "<project><modelVersion>4.0.0</modelVersion>",
        "<groupId>tidyberg</groupId><artifactId>tests</artifactId><version>1</version><packaging>pom</packaging>",
        "<dependencies>",
    ]
    every = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    for module in modules:
        excluded = "" if module.transitive else every
        for classifier in module.classifiers:
            qualified = f"<classifier>{classifier}</classifier>" if classifier else ""
            coordinates = f"<groupId>{module.organisation}</groupId><artifactId>{module.name}</artifactId>"
            coordinates += f"<version>{module.version}</version>{qualified}"
            lines += [f"<dependency>{coordinates}{excluded}</dependency>"]
    return "\n".join([*lines, "</dependencies></project>", ""])
