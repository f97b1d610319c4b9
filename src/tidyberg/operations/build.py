"""Connects the parts of table operations."""

from tidyberg.control.control import Control
from tidyberg.operations.compaction import Compactor
from tidyberg.operations.operations import TableOperations
from tidyberg.operations.query import QueryRunner
from tidyberg.operations.writing import TableWriter
from tidyberg.settings.settings import Settings


def build_operations(settings: Settings, control: Control, compactor: Compactor) -> TableOperations:
    queries = QueryRunner(settings.operations, control)
    return TableOperations(settings, control, compactor, queries, TableWriter(settings, control))
