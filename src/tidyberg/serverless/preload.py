"""Imports everything that the first event needs. Nothing of it imports PySpark."""

import pyiceberg.io.pyarrow  # noqa: F401

import tidyberg.control.job
import tidyberg.execute.inline
import tidyberg.serverless.function  # noqa: F401
