"""Writes the software bill of materials of this Python environment, as CycloneDX 1.6: every package, with its licence.

Run it with the interpreter of the environment. The same packages give the same bytes, so it has neither a time nor a
random serial number.
"""

import json
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any


def component(package: Distribution) -> dict[str, Any]:
    name, version = package.metadata["Name"], package.version
    licence = package.metadata.get("License-Expression") or package.metadata.get("License")
    described = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower().replace('_', '-')}@{version}",
    }
    described["bom-ref"] = described["purl"]
    if licence and "\n" not in licence:
        return {**described, "licenses": [{"license": {"name": licence}}]}
    return described


def jars(package: Distribution) -> list[dict[str, Any]]:
    """PySpark brings the jars of Spark, which have no metadata here but their file names."""
    files = [file for file in package.files or () if file.suffix == ".jar"]
    found = [Path(str(file)) for file in files if Path(str(package.locate_file(file))).exists()]
    return [{"type": "file", "name": jar.name, "bom-ref": f"file:{jar.as_posix()}"} for jar in found]


def main() -> None:
    packages = sorted(distributions(), key=lambda package: str(package.metadata["Name"]).lower())
    components = [component(package) for package in packages]
    files = sorted((jar for package in packages for jar in jars(package)), key=lambda jar: str(jar["bom-ref"]))
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": [*components, *files]}
    json.dump(document, sys.stdout, indent=1, sort_keys=True)


main()
