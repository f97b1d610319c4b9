"""An upstream asset that writes a table, an asset that compacts the table, and a check of its health."""

import dagster as dg

from tidyberg_dagster import TidybergService, tidyberg_compacted_table, tidyberg_health_check


@dg.asset(key=["public", "events"])
def events() -> None:
    """Appends the events of the last hour to the Iceberg table public.events."""


compacted = tidyberg_compacted_table(
    "public.events",
    deps=[events],
    options={"target_file_size": "1GB", "max_cost": 10.0},
    automation_condition=dg.AutomationCondition.eager(),
)
healthy = tidyberg_health_check(compacted, "public.events", at_least=70)

defs = dg.Definitions(
    assets=[events, compacted],
    asset_checks=[healthy],
    resources={"tidyberg": TidybergService(url=dg.EnvVar("TIDYBERG_SERVER"), poll_seconds=1)},
)
