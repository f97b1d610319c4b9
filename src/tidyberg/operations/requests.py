"""The requests of table operations, as pydantic models. The names are those of the contract."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from tidyberg.errors import BadInput
from tidyberg.model.options import MOST_RETENTION_HOURS
from tidyberg.settings.problems import describe_problem, near_name

MOST_SQL_CHARACTERS = 20_000
MOST_LEVELS = 32
_MOST_COLUMNS = 1_000
_MOST_PROBLEMS = 3

Name = Annotated[str, Field(min_length=1, max_length=64, examples=["default"])]
TenantId = Annotated[
    str | None,
    Field(
        min_length=1, max_length=64, description="The tenant. A caller of one tenant may omit it.", examples=["acme"]
    ),
]
TableName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", examples=["users"])]
ColumnName = Annotated[str, Field(min_length=1, max_length=255)]


class OperationModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class OfTable(OperationModel):
    tenant_id: TenantId = None
    namespace: Name = "default"
    table: TableName


class FieldOfSchema(OperationModel):
    """One column. `element` is for lists, `fields` is for structs."""

    type: str = Field(
        max_length=64,
        description="string, integer, long, float, double, boolean, date, time, timestamp, timestamptz, "
        "decimal(p,s), uuid, binary, list or struct.",
        examples=["string"],
    )
    required: bool = False
    doc: str | None = Field(None, max_length=1000)
    element: "FieldOfSchema | None" = None
    fields: "dict[ColumnName, FieldOfSchema] | None" = None


class TableSchema(OperationModel):
    fields: dict[ColumnName, FieldOfSchema] = Field(min_length=1, max_length=_MOST_COLUMNS)


class CreateTableOperation(OfTable):
    """Creates a table, and its namespace if it is the first."""

    operation: Literal["CREATE_TABLE"]
    table_schema: TableSchema = Field(alias="schema")
    if_not_exists: bool = Field(False, description="Whether an existing table of that name is a success.")
    partition_by: list[Annotated[str, Field(max_length=255)]] | None = Field(
        None,
        max_length=16,
        description="Columns or transforms: `country`, `day(created)`, `bucket(16, id)`, `truncate(4, name)`.",
    )


class WriteOperation(OfTable):
    """Appends records in one commit."""

    operation: Literal["WRITE"]
    records: list[dict[str, Any]] = Field(min_length=1)
    write_id: str | None = Field(
        None,
        min_length=1,
        max_length=128,
        pattern=r"^[!-~]+$",
        description="Makes a repeated WRITE safe: while the table's history has this id, it is not applied again.",
    )


class QueryOperation(OfTable):
    """Reads rows: by one SELECT on the table's name, or by columns, filter and limit."""

    operation: Literal["QUERY"]
    sql: str | None = Field(None, min_length=1, max_length=MOST_SQL_CHARACTERS, examples=["SELECT count(*) FROM users"])
    columns: list[ColumnName] | None = Field(None, min_length=1, max_length=_MOST_COLUMNS)
    filter: str | None = Field(
        None, min_length=1, max_length=MOST_SQL_CHARACTERS, description="An SQL condition.", examples=["age >= 21"]
    )
    limit: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _one_way_to_ask(self) -> "QueryOperation":
        if self.sql is not None and (self.columns is not None or self.filter is not None):
            raise ValueError("give either sql, or columns and filter")
        return self


class CompactOperation(OfTable):
    """Merges small files. Without `force`, only if the table has enough of them."""

    operation: Literal["COMPACT"]
    force: bool | None = Field(None, description="Compact even if there are too few small files.")
    target_file_size_mb: float | None = Field(None, gt=0, le=100_000, description="Default: the table's property.")
    max_files: int | None = Field(None, ge=1, description="Default: iceberg.compaction.max_files_per_compaction.")
    partition_filter: str | dict[ColumnName, str | int | float | bool | None] | None = Field(
        None, description="An SQL condition on partitions, or a value for each column.", examples=["country = 'CH'"]
    )
    expire_snapshots: bool | None = Field(None, description="Afterwards, expire old snapshots and delete their files.")
    snapshot_retention_hours: float | None = Field(
        None, gt=0, le=MOST_RETENTION_HOURS, description="With expire_snapshots: younger snapshots stay."
    )


class HealthOperation(OperationModel):
    """Says whether the catalog answers."""

    operation: Literal["HEALTH"]
    tenant_id: TenantId = None


OperationRequest = Annotated[
    CreateTableOperation | WriteOperation | QueryOperation | CompactOperation | HealthOperation,
    Field(discriminator="operation"),
]
OPERATIONS: Mapping[str, type[OperationModel]] = {
    "CREATE_TABLE": CreateTableOperation,
    "WRITE": WriteOperation,
    "QUERY": QueryOperation,
    "COMPACT": CompactOperation,
    "HEALTH": HealthOperation,
}
_ADAPTER: TypeAdapter[OperationRequest] = TypeAdapter(OperationRequest)

Operation = CreateTableOperation | WriteOperation | QueryOperation | CompactOperation | HealthOperation


def parse_operation(body: Any) -> Operation:
    """Checks the body of a request. BadInput says which field is wrong."""
    if not isinstance(body, Mapping):
        raise BadInput("The body is not a JSON object.", hint='Send {"operation": …}.')
    name = body.get("operation")
    if not isinstance(name, str) or name not in OPERATIONS:
        shown = repr(name[:100]) if isinstance(name, str) else "Something that is not a text"
        known = near_name(name, [each.lower() for each in OPERATIONS]).upper() if isinstance(name, str) else "."
        raise BadInput(
            f"{shown} is not an operation{known.replace('; DID YOU MEAN', '; did you mean')}"
            if name is not None
            else "The request names no operation.",
            hint=f"Known: {', '.join(OPERATIONS)}.",
        )
    _check_values(body, 1)
    try:
        return _ADAPTER.validate_python(dict(body))
    except ValidationError as error:
        raise BadInput(_in_words(OPERATIONS[name], error)) from None
    except RecursionError:
        raise BadInput("The request is nested too deeply.") from None


def _in_words(model: type[BaseModel], error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False)
    words = []
    for problem in problems[:_MOST_PROBLEMS]:
        # The first part of the place is the operation, which selects the model.
        described = describe_problem(model, {**problem, "loc": problem["loc"][1:]})
        words.append(described.replace("is not a setting", "is not known"))
    more = len(problems) - _MOST_PROBLEMS
    return " ".join(words) + (f" There are {more} more." if more > 0 else "")


def _check_values(value: Any, level: int) -> None:
    """Refuses what the service refuses in any JSON body, because Lambda passes bodies on unchecked."""
    if level > MOST_LEVELS:
        raise BadInput(f"The request is nested more than {MOST_LEVELS} levels deep.")
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise BadInput("The request has a key that is not a text.")
            _check_text(key)
            _check_values(item, level + 1)
    elif isinstance(value, list):
        for item in value:
            _check_values(item, level + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadInput("The request has a number that is NaN or infinite, which JSON does not have.")
    elif value is not None and not isinstance(value, bool | int | float):
        raise BadInput("The request has a value that is not plain JSON.")


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise BadInput("The request contains a NUL character.")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput("The request contains half of a surrogate pair, which is not a character.")
