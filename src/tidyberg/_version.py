"""The one place that knows tidyberg's version."""

__version__ = "0.1.0"
