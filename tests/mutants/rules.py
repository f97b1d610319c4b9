"""The rules of the format that a compaction must obey, each with a change of the code that breaks it."""

from tests.mutants.boundaries import BOUNDARIES
from tests.mutants.catalog_policies import CATALOG_POLICIES
from tests.mutants.commits import OUTCOMES
from tests.mutants.copies import COPIES
from tests.mutants.deletes import CONFLICTS, DELETES, LIFETIMES
from tests.mutants.expiries import EXPIRIES
from tests.mutants.expiry_jobs import EXPIRY_JOBS
from tests.mutants.format_v3 import FORMAT_V3
from tests.mutants.joins import JOINS
from tests.mutants.key_joins import KEY_JOINS
from tests.mutants.layouts import LAYOUTS
from tests.mutants.leases import LEASES
from tests.mutants.maintenance import MAINTENANCE
from tests.mutants.manifest_rewrites import MANIFEST_REWRITES
from tests.mutants.manifests import SEQUENCE_NUMBERS
from tests.mutants.minor_compactions import MINOR_COMPACTIONS
from tests.mutants.moves import MOVES
from tests.mutants.mutant import Mutant
from tests.mutants.orders import ORDERS
from tests.mutants.orphans import ORPHAN_FILES
from tests.mutants.other_states import OTHER_STATES
from tests.mutants.outcomes import JOB_OUTCOMES
from tests.mutants.plans import PLANS
from tests.mutants.query_advice import QUERY_ADVICE
from tests.mutants.recoveries import RECOVERIES
from tests.mutants.redis_scripts import REDIS_SCRIPTS
from tests.mutants.shuffles import SHUFFLES
from tests.mutants.splices import SPLICES
from tests.mutants.storage import STORAGE_REPORTS
from tests.mutants.values import EVOLUTION, LINEAGE, VALUES

MUTANTS: tuple[Mutant, ...] = (
    *SEQUENCE_NUMBERS,
    *DELETES,
    *LIFETIMES,
    *CONFLICTS,
    *OUTCOMES,
    *VALUES,
    *EVOLUTION,
    *LINEAGE,
    *FORMAT_V3,
    *JOB_OUTCOMES,
    *LEASES,
    *RECOVERIES,
    *REDIS_SCRIPTS,
    *MOVES,
    *PLANS,
    *COPIES,
    *JOINS,
    *KEY_JOINS,
    *SPLICES,
    *SHUFFLES,
    *EXPIRIES,
    *MAINTENANCE,
    *CATALOG_POLICIES,
    *MANIFEST_REWRITES,
    *ORPHAN_FILES,
    *ORDERS,
    *BOUNDARIES,
    *OTHER_STATES,
    *EXPIRY_JOBS,
    *STORAGE_REPORTS,
    *MINOR_COMPACTIONS,
    *QUERY_ADVICE,
    *LAYOUTS,
)
