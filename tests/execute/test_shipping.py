"""Executors receive the packages that are declared as shippable, and these need nothing else of tidyberg."""

import io
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from tidyberg.execute.spark.shipping import archive_bytes, write_archive

ROOT = Path(__file__).parents[2]
DRIVER_ONLY = {"tidyberg.avro.records"}  # see the contract's `ignore_imports`


def shipped_modules() -> set[str]:
    names = zipfile.ZipFile(io.BytesIO(archive_bytes())).namelist()
    return {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in names}


def declared() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (shipping,) = [contract for contract in contracts if "ships to executors" in contract["name"]]
    return list(shipping["source_modules"])


def test_the_archive_holds_what_is_declared_as_shippable_and_no_other_module() -> None:
    packages = {"tidyberg", "tidyberg._version", "tidyberg.model", "tidyberg.execute"}  # what declared ones lie in
    shipped = shipped_modules() - packages
    assert {name for name in declared() if name not in shipped} == set()
    assert {name for name in shipped if not any(name == d or name.startswith(f"{d}.") for d in declared())} == set()


def test_every_shipped_module_is_imported_from_the_archive_alone(tmp_path: Path) -> None:
    archive = write_archive(tmp_path)
    modules = sorted(shipped_modules() - DRIVER_ONLY)
    code = f"import sys; sys.path.insert(0, {str(archive)!r})\nimport importlib\nsys.modules['pyiceberg'] = None\n" + (
        f"for name in {modules!r}:\n    module = importlib.import_module(name)\n"
        f"    assert module.__file__.startswith({str(archive)!r}), module.__file__\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
