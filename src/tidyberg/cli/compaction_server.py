"""The `iceberg-compaction-server` command of the contract: `tidyberg serve` under the name that containers start."""

import sys

from tidyberg.cli import main


def run() -> None:
    sys.argv.insert(1, "serve")
    main.run()
