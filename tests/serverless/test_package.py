"""The zip file for Lambda leaves out packages that nothing in a function needs."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.builders.sales_table import regional
from tests.serverless.functions import environment_of
from tidyberg.testing import Warehouse

ROOT = Path(__file__).parent.parent.parent
_RUN = """
import json, sys

left_out = set(json.loads(sys.argv[1]))

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in left_out:
            raise ModuleNotFoundError(f"{name} is not in the zip file", name=name)

sys.meta_path.insert(0, Missing())
from tidyberg.serverless import handler
print(json.dumps(handler({"tables": ["db.sales"], "options": {"strategy": "full", "where": "region = 'eu'"}}, None)))
"""


def left_out() -> set[str]:
    """The distributions that the script does not install."""
    script = (ROOT / "scripts" / "build-lambda.sh").read_text()
    lists = re.findall(r"""^without=['"](?:\$without\|)?(.+)['"]$""", script, re.MULTILINE)
    found = {name for each in lists for name in each.split("|")}
    assert {"pyspark", "fastapi"} <= found
    return found


def test_a_function_compacts_a_table_without_the_packages_that_the_zip_file_leaves_out(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    regional(warehouse)
    names = left_out()
    modules = [
        module
        for module, distributions in packages_distributions().items()
        if {name.lower().replace("_", "-") for name in distributions} <= names
    ]
    assert {"pyspark", "pandas", "fastapi", "rich", "jwt"} <= set(modules)
    done = subprocess.run(
        [sys.executable, "-c", _RUN, json.dumps(modules)],
        cwd=tmp_path,
        env={**os.environ, **environment_of(warehouse, tmp_path), "AWS_LAMBDA_FUNCTION_NAME": "tidyberg"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(done.stdout)["tables"]
    assert (report["outcome"], report["done"]["files_replaced"]) == ("committed", 4), report


def test_everything_that_is_left_out_is_in_the_lock() -> None:
    lock = (ROOT / "requirements-runtime.lock").read_text()
    assert {name for name in left_out() if not re.search(rf"^{name}==", lock, re.MULTILINE)} == set()
