"""Airflow provider for tidyberg: a hook, a deferrable operator with its trigger, and a sensor."""

from typing import Any

__version__ = "0.1.0"


def get_provider_info() -> dict[str, Any]:
    """Returns what Airflow shows of this provider, and the type of its connections."""
    return {
        "package-name": "tidyberg-airflow",
        "name": "tidyberg",
        "description": "Compacts and maintains Apache Iceberg tables through a tidyberg service.",
        "versions": [__version__],
        "connection-types": [{"connection-type": "tidyberg", "hook-class-name": "tidyberg_airflow.hook.TidybergHook"}],
    }
