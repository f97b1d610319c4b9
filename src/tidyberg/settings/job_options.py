"""The options of each kind of job, as requests, schedules and tidyberg.yaml give them."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializeAsAny,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from tidyberg.errors import BadInput
from tidyberg.model.durations import parse_age
from tidyberg.model.expiry import EXPIRE, ExpireOptions
from tidyberg.model.maintenance import MAINTAIN
from tidyberg.model.submission import COMPACT
from tidyberg.settings.fields import Section
from tidyberg.settings.maintenance import PolicySettings
from tidyberg.settings.problems import describe_problem, near_name
from tidyberg.settings.sections import Options

MOST_SNAPSHOTS = 10_000
_LARGEST_ID = 2**63 - 1


def _age(text: str) -> str:
    try:
        parse_age(text)
    except BadInput as error:
        raise ValueError(str(error)) from None
    return text


def _whole_number(value: Any) -> Any:
    """JavaScript cannot hold all ids as numbers, so a text of digits is an id too. `true` and 1.0 are none."""
    if isinstance(value, bool | float):
        raise ValueError("a snapshot id is a whole number")
    return value


Age = Annotated[
    str,
    StringConstraints(min_length=2, max_length=32),
    AfterValidator(_age),
    WithJsonSchema({"type": "string", "minLength": 2, "maxLength": 32, "examples": ["5d", "36h", "30m"]}),
]
SnapshotId = Annotated[int, Field(ge=0, le=_LARGEST_ID), BeforeValidator(_whole_number)]


class ExpireJobOptions(Section):
    """Says which snapshots expire. Other values come from the table's properties, or are Iceberg's defaults."""

    older_than: Age | None = Field(None, description="The age of snapshots to expire, such as 5d or 36h.")
    retain_last: int | None = Field(None, ge=1, description="How many snapshots of each branch stay in any case.")
    snapshot_ids: Annotated[tuple[SnapshotId, ...], Field(max_length=MOST_SNAPSHOTS)] | None = Field(
        None, description="Expire these snapshots too, whatever their age. Only for a single table."
    )
    clean_metadata: bool | None = Field(None, description="Also remove schemas and partition specs that nothing uses.")
    verify: bool | None = Field(
        None, description="Look for every file of the retained snapshots. Default: if their manifests are small."
    )

    def to_options(self) -> ExpireOptions:
        return ExpireOptions(
            older_than_ms=None if self.older_than is None else parse_age(self.older_than),
            retain_last=self.retain_last,
            snapshot_ids=tuple(dict.fromkeys(self.snapshot_ids or ())),
            clean_metadata=bool(self.clean_metadata),
            verify=self.verify,
        )


# Another kind of job adds its model here and to `OptionsOfKind`, and its object in service/kinds.
JOB_OPTIONS: Mapping[str, type[Section]] = {COMPACT: Options, EXPIRE: ExpireJobOptions, MAINTAIN: PolicySettings}


def parse_job_options(kind: str, given: Mapping[str, Any]) -> Section:
    """Checks the options of a job. BadInput names the wrong key and suggests a similar one."""
    model = JOB_OPTIONS[check_kind(kind)]
    try:
        return model.model_validate({key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        raise BadInput(_in_words(model, error)) from None


def check_kind(kind: str) -> str:
    if kind not in JOB_OPTIONS:
        known = ", ".join(JOB_OPTIONS)
        raise BadInput(
            f"{kind[:100]!r} is not a kind of job{near_name(kind, list(JOB_OPTIONS))}", hint=f"Known: {known}."
        )
    return kind


def plain_options(options: Section) -> dict[str, Any]:
    """Returns the given options as plain JSON, each under its canonical name."""
    return options.model_dump(mode="json", exclude_none=True)


def check_repeatable(options: Section) -> None:
    """Raises ValueError for options that only a single job can have, not a schedule."""
    if isinstance(options, ExpireJobOptions) and options.snapshot_ids:
        raise ValueError("snapshot_ids are for a single job, not for a schedule")


def _kind(value: str) -> str:
    try:
        return check_kind(value)
    except BadInput as error:
        raise ValueError(str(error)) from None


def _of_kind(value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Section:
    """Checks `options` by the model of the `kind` that the same document gives before it."""
    kind = info.data.get("kind", COMPACT)
    model = JOB_OPTIONS[kind]
    if kind == COMPACT:
        return validate(value)  # type: ignore[no-any-return]
    if isinstance(value, Options):
        value = value.given()  # the default
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise ValueError(_in_words(model, error)) from None


def _in_words(model: type[Section], error: ValidationError) -> str:
    problems = (describe_problem(model, problem).replace("a setting", "an option") for problem in error.errors())
    return " ".join(problems)


KindName = Annotated[str, AfterValidator(_kind), WithJsonSchema({"type": "string", "enum": list(JOB_OPTIONS)})]
# Must follow a field `kind` in its model, which decides.
OptionsOfKind = Annotated[
    SerializeAsAny[Options], WrapValidator(_of_kind, json_schema_input_type=Options | ExpireJobOptions | PolicySettings)
]
