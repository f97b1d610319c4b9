"""What no caller may go beyond, whatever a request or a table's properties say."""

from pydantic import Field

from tidyberg.model.options import MOST_OUTPUT_FILES
from tidyberg.model.sizes import MB
from tidyberg.settings.fields import Section, Size


class LimitSettings(Section):
    min_target_file_size: Size = Field(
        MB, description="Smallest target file size; for a table that asks for less, this is taken. Tests lower it."
    )
    max_output_files: int = Field(
        MOST_OUTPUT_FILES, ge=1, description="Most files that one job may write; the rest is left for the next."
    )
