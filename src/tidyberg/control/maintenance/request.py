"""Finds out what is asked of one table: its policy and its options, from all places that may give them."""

from collections.abc import Sequence

from pyiceberg.table import Table

from tidyberg.catalog.applicable_policies import applicable_policies
from tidyberg.model.catalog_policies import CatalogPolicyLayers, PolicyReport
from tidyberg.model.maintenance import MaintenancePlan, MaintenanceRequest
from tidyberg.model.maintenance_policy import PolicyLayer
from tidyberg.model.table import TableRef
from tidyberg.settings.catalog_policies import catalog_policy_layers, refuse_malformed
from tidyberg.settings.maintenance import NO_POLICIES, maintenance_policy, obeys_catalog
from tidyberg.settings.options import plan_options
from tidyberg.settings.policy_drift import policy_report
from tidyberg.settings.settings import Settings


def maintenance_request(
    settings: Settings, ref: TableRef, table: Table, asked: Sequence[PolicyLayer] = ()
) -> MaintenanceRequest:
    of_catalog = _policies_of_catalog(settings, ref, table)
    policy = maintenance_policy(settings.maintain, ref, table.metadata.properties, asked, of_catalog)
    return MaintenanceRequest(ref, policy, plan_options(settings, ref, {}), settings.verify)


def report_policies(settings: Settings, ref: TableRef, table: Table) -> PolicyReport:
    """Returns the policies that the catalog stores for the table, whether or not the settings obey them."""
    policies = applicable_policies(table.catalog, ref, settings.http_timeout_seconds)
    return policy_report(settings, ref, table.metadata.properties, policies)


def _policies_of_catalog(settings: Settings, ref: TableRef, table: Table) -> CatalogPolicyLayers:
    if not obeys_catalog(settings.maintain, ref.catalog):
        return NO_POLICIES
    layers = catalog_policy_layers(applicable_policies(table.catalog, ref, settings.http_timeout_seconds))
    refuse_malformed(layers)
    return layers


def request_of_plan(settings: Settings, plan: MaintenancePlan) -> MaintenanceRequest:
    """Returns the request of a saved plan: its own policy, whatever the settings and properties say by now."""
    made = plan_options(settings, plan.table, {})
    return MaintenanceRequest(plan.table, plan.policy, made, settings.verify)
