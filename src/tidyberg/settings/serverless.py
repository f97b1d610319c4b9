"""Settings for tidyberg as an AWS Lambda function."""

from pydantic import Field

from tidyberg.model.submission import COMPACT
from tidyberg.settings.fields import Section
from tidyberg.settings.job_options import KindName


class ServerlessSettings(Section):
    kind: KindName = Field(COMPACT, description="What an event that names no kind does: compact, expire or maintain.")
    tables: tuple[str, ...] = Field(
        (), description="Tables or patterns of events that name none. Default: the names under `tables:`."
    )
    reserve_seconds: float = Field(
        10.0, gt=0, description="The time before the limit of the function that is kept for commits and clean-up."
    )
    tenant_claim: str = Field(
        "tenant_id", min_length=1, description="The claim of the API Gateway's authorizer that holds the tenant."
    )
