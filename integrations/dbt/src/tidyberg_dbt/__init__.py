"""Plugins of dbt adapters that submit compactions to a tidyberg service."""

__version__ = "0.1.0"
