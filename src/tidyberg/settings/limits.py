"""Limits of the installation, which neither a request nor a table's properties can exceed."""

from pydantic import Field

from tidyberg.model.options import MOST_OUTPUT_FILES
from tidyberg.model.sizes import MB
from tidyberg.settings.fields import Section, Size


class LimitSettings(Section):
    min_target_file_size: Size = Field(
        MB, description="The smallest target file size. It replaces a smaller size in a table's properties."
    )
    max_output_files: int = Field(
        MOST_OUTPUT_FILES, ge=1, description="The most files that one job may write. The next job writes the rest."
    )
