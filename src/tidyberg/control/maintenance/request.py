"""Finds out what is asked of one table: its policy and its options, from settings, table properties and flags."""

from collections.abc import Sequence

from pyiceberg.table import Table

from tidyberg.model.maintenance import MaintenancePlan, MaintenanceRequest
from tidyberg.model.maintenance_policy import PolicyLayer
from tidyberg.model.table import TableRef
from tidyberg.settings.maintenance import maintenance_policy
from tidyberg.settings.options import plan_options
from tidyberg.settings.settings import Settings


def maintenance_request(
    settings: Settings, ref: TableRef, table: Table, asked: Sequence[PolicyLayer] = ()
) -> MaintenanceRequest:
    policy = maintenance_policy(settings.maintain, ref, table.metadata.properties, asked)
    return MaintenanceRequest(ref, policy, plan_options(settings, ref, {}), settings.verify)


def request_of_plan(settings: Settings, plan: MaintenancePlan) -> MaintenanceRequest:
    """Returns the request of a saved plan: its own policy, whatever the settings and properties say by now."""
    made = plan_options(settings, plan.table, {})
    return MaintenanceRequest(plan.table, plan.policy, made, settings.verify)
