"""Imports everything that the first event needs. Nothing of it imports PySpark."""

from tidyberg.execute.kernel.without_pandas import use_arrow_without_pandas

use_arrow_without_pandas()  # before PyIceberg makes Arrow look for it

import pyiceberg.io.pyarrow  # noqa: E402, F401

import tidyberg.control.job  # noqa: E402
import tidyberg.execute.inline  # noqa: E402
import tidyberg.serverless.function  # noqa: E402, F401
