"""`make bench`: scenarios rewritten by tidyberg and by its opponents, on the same data in the same run."""

import argparse
import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.servers.s3 import S3Server
from tests.servers.s3_binary import S3ServerMissingError

from benchmarks.machine import machine_facts
from benchmarks.markdown import full_text
from benchmarks.measure import BenchmarkError, Run, measure
from benchmarks.on_s3 import S3Bench
from benchmarks.report import Input, scenario_report
from benchmarks.scenarios import SCENARIOS, Scenario
from benchmarks.side import ON_S3, SIDES
from benchmarks.warehouse import Bench, RowSum


def main() -> None:
    options = parse_options()
    options.results.mkdir(parents=True, exist_ok=True)
    reports = []
    for scenario in chosen_scenarios(options):
        report = run_scenario(scenario, options)
        (options.results / f"{scenario.name}.json").write_text(json.dumps(report, indent=2) + "\n")
        reports.append(report)
    if "tidyberg" not in options.sides:
        return
    text = full_text(reports)
    (options.results / "report.md").write_text(text + "\n")
    print(f"\n{text}\n\nwritten to {options.results}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "scenarios", nargs="*", metavar="scenario", help=f"of {', '.join(SCENARIOS)}; the core by default"
    )
    parser.add_argument("--full", action="store_true", help="all scenarios, not only the core")
    parser.add_argument("--files", type=int, help="fewer files than a scenario has, for a quick look")
    parser.add_argument("--threads", type=int, default=2, help="N of local[N]")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--work", type=Path, default=Path("bench-results/work"), help="where tables are made")
    parser.add_argument("--keep", action="store_true", help="keep the tables, to be used again")
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    return parser.parse_args()


def chosen_scenarios(options: argparse.Namespace) -> list[Scenario]:
    if unknown := [name for name in options.scenarios if name not in SCENARIOS]:
        raise BenchmarkError(f"no scenario is called {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    if options.scenarios:
        found = [SCENARIOS[name] for name in options.scenarios]
    else:
        found = [scenario for scenario in SCENARIOS.values() if options.full or scenario.core]
    return [scenario.with_files(options.files) if options.files else scenario for scenario in found]


def run_scenario(scenario: Scenario, options: argparse.Namespace) -> dict[str, Any]:
    bench = Bench(options.work / scenario.name, scenario)
    say(f"{scenario.name}: {scenario.title}")
    expected = bench.prepare()
    bench.restore()
    inventory = bench.inventory()
    given = Input(
        files=inventory.data_files.num_rows,
        rows=scenario.files * scenario.rows_per_file,
        bytes=sum(inventory.data_files["size"].to_pylist()),
        delete_files=inventory.delete_files.num_rows,
        partitions=len(set(inventory.data_files["partition"].to_pylist())),
    )
    suits = {"duckdb": scenario.for_duckdb, ON_S3: scenario.for_s3}
    sides = [side for side in options.sides if suits.get(side, True)]
    runs: list[Run] = []
    for number in range(options.rounds):
        # Alternate the order: a machine may become hot or busy during the run.
        for side in sides if number % 2 == 0 else reversed(sides):
            try:
                runs.append(measure_side(side, bench, options.threads, expected))
            except S3ServerMissingError as error:
                say(f"  {side}: left out, for no S3 server can be had: {error}")
                continue
            say(f"  {side}: {runs[-1].seconds:.2f} s, {runs[-1].outputs} files")
    facts = machine_facts(options.work)
    if not options.keep:
        shutil.rmtree(bench.directory)
    report = scenario_report(scenario, given, runs, options.threads)
    return {"at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": facts, **report}


def measure_side(side: str, bench: Bench, threads: int, expected: RowSum) -> Run:
    if side != ON_S3:
        return measure(side, bench, threads, expected)
    with (
        TemporaryDirectory(dir=bench.directory, prefix="s3-") as directory,
        S3Server(Path(directory)) as server,
    ):
        return measure(side, S3Bench(bench, server), threads, expected)


def say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    try:
        main()
    except BenchmarkError as error:
        sys.exit(str(error))
