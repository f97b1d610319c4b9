"""SQL filters become Iceberg expressions or are refused with a clear message."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    Not,
    NotNull,
    StartsWith,
)
from pyiceberg.expressions.literals import DateLiteral, DecimalLiteral, TimestampLiteral
from pyiceberg.expressions.visitors import bind
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, NestedField

from tests.builders.scenes import NOW, SCHEMA, TODAY
from tidyberg.errors import BadPredicate
from tidyberg.planning.predicate import parse_predicate


@pytest.mark.parametrize(
    ("sql", "resolved"),
    [
        ("day = '2024-01-01'", "day = '2024-01-01'"),
        ("day >= current_date - 7", "day >= '2026-11-06'"),
        ("day >= current_date - interval '7' day", "day >= '2026-11-06'"),
        ("day >= current_date - interval 7 days", "day >= '2026-11-06'"),
        ("day >= current_date - interval '2 weeks'", "day >= '2026-10-30'"),
        ("day > current_date - interval 1 month", "day > '2026-10-13'"),
        ("day > date '2024-03-31' - interval '1' month", "day > '2024-02-29'"),
        ("day > date '2024-02-29' + interval '1' year", "day > '2025-02-28'"),
        ("current_date - 1 <= day", "day >= '2026-11-12'"),
        ("day = current_date + 1", "day = '2026-11-14'"),
        ("ts > current_timestamp - interval '36' hour", "ts > '2026-11-11 12:00:00'"),
        ("ts > current_date - interval '90' minute", "ts > '2026-11-12 22:30:00'"),
        ("seen < timestamp '2024-01-01 10:00:00'", "seen < '2024-01-01 10:00:00+00:00'"),
        ("seen = '2024-01-01T00:00:00+02:00'", "seen = '2023-12-31 22:00:00+00:00'"),
        ("seen >= current_timestamp()", "seen >= '2026-11-13 00:00:00+00:00'"),
        ("ts = '2024-01-01'", "ts = '2024-01-01 00:00:00'"),
        ("ts >= date '2024-01-01'", "ts >= '2024-01-01 00:00:00'"),
        ("day = cast('2024-01-01' as date)", "day = '2024-01-01'"),
        ("id != 5", "id != 5"),
        ("id <> -5", "id != -5"),
        ("5 < id", "id > 5"),
        ("5 >= id", "id <= 5"),
        ("id = '5'", "id = 5"),
        ("id = 5.0", "id = 5"),
        ("ratio >= 1e3", "ratio >= 1000.0"),
        ("ratio < -0.5", "ratio < -0.5"),
        ("price = 1.2", "price = 1.20"),
        ("id in (3, 1, 3)", "id in (3, 1)"),
        ("id not in (1, -2)", "not (id in (1, -2))"),
        ("id between 1 and 5", "id between 1 and 5"),
        ("id not between 1 and 5", "not (id between 1 and 5)"),
        ("region is null", "region is null"),
        ("region is not null", "region is not null"),
        ("not region is null", "region is not null"),
        ("not not flag", "not (not (flag = true))"),
        ("flag = false", "flag = false"),
        ("region like 'e%'", "region like 'e%'"),
        ("region like 'it''s%'", "region like 'it''s%'"),
        ("region like 'eu'", "region = 'eu'"),
        ("region like '%'", "region is not null"),
        ("region not like 'e%'", "not (region like 'e%')"),
        ("PLACE.City = 'Ulm'", "place.city = 'Ulm'"),
        ("\"odd name\" = 'it''s'", "\"odd name\" = 'it''s'"),
        ("`odd name` = 'x'", "\"odd name\" = 'x'"),
        ("uid = 'F79C3E09-677C-4BBD-A479-3F349CB785E7'", "uid = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'"),
        ("clock >= '10:30'", "clock >= '10:30:00'"),
        ("id = 1 and (region = 'a' or region = 'b')", "id = 1 and (region = 'a' or region = 'b')"),
        ("id = 1 and id = 2 or id = 3", "(id = 1 and id = 2) or id = 3"),
        ("not (id = 1 or flag)", "not (id = 1 or flag = true)"),
        ("true", "true"),
        ("id = 1 -- only the first", "id = 1"),
    ],
)
def test_supported_filters_resolve_to_literals_and_read_back_equal(sql: str, resolved: str) -> None:
    expression, text = parse_predicate(sql, SCHEMA, NOW)
    assert text == resolved
    # The resolved text does not depend on the clock any more.
    assert parse_predicate(text, SCHEMA, 0) == (expression, text)


def predicate(kind: Callable[..., BooleanExpression], *operands: object) -> BooleanExpression:
    return kind(*operands)


@pytest.mark.parametrize(
    ("sql", "expression"),
    [
        ("day >= current_date - 7", predicate(GreaterThanOrEqual, "day", DateLiteral(TODAY - 7))),
        ("seen = '1970-01-01T01:00:00+01:00'", predicate(EqualTo, "seen", TimestampLiteral(0))),
        ("id in (1, 2)", predicate(In, "id", {1, 2})),
        ("region not like 'e%'", Not(predicate(StartsWith, "region", "e"))),
        ("flag and region is not null", And(predicate(EqualTo, "flag", True), predicate(NotNull, "region"))),
        ("true", AlwaysTrue()),
    ],
)
def test_expressions_have_the_type_of_their_column(sql: str, expression: BooleanExpression) -> None:
    assert parse_predicate(sql, SCHEMA, NOW)[0] == expression


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("", "empty"),
        ("day =", "not valid SQL"),
        ("(id = 1", "not valid SQL"),
        ("id = 1; drop table events", "not valid SQL"),
        ("select * from events", "not valid SQL"),
        ("region = 'eu", "not valid SQL"),
        ("id = 1, id = 2", "not valid SQL"),
        ("regoin = 'eu'", "Did you mean region?"),
        ("nothing_like_it = 1", "The table has clock, day"),
        ("region = eu", "single quotes"),
        ("id = place.zip", "names a column where a value is expected"),
        ("1 = 1", "is a value where a column is expected"),
        ("id = (select 1)", "Subqueries"),
        ("id in (select 1)", "Subqueries"),
        ("exists (select 1)", "Subqueries"),
        ("lower(region) = 'eu'", "Functions are not supported"),
        ("cast(id as string) = '1'", "Functions are not supported"),
        ("region = upper('eu')", "is not a value that a filter can use"),
        ("ts > now()", "is not a value that a filter can use"),
        ("id + 1 = 2", "cannot hold"),
        ("id = 1 + 1", "only dates and timestamps"),
        ("day >= 2026-11-12", "Write the date in quotes: '2026-11-12'."),
        ("id is true", "cannot hold"),
        ("region ilike 'e%'", "cannot hold"),
        ("region like 'e_u%'", "end in one %"),
        ("region like '%eu'", "end in one %"),
        ("region like 'e%' escape '!'", "cannot hold"),
        ("id like '1%'", "compares a string column"),
        ("region like 1", "compares a string column"),
        ("id = null", "is null"),
        ("id = 'abc'", "'abc' is not a value of column id, which is of type long"),
        ("id = 5.5", "not a value of column id"),
        ("id = 9223372036854775808", "not a value of column id"),
        ("id = 1e999999", "not a value of column id"),
        ("place.zip = 3000000000", "not a value of column place.zip"),
        ("price = 1.234", "not a value of column price"),
        ("price = 12345678.00", "not a value of column price"),
        ("price = date '2024-01-01'", "not a value of column price"),
        ("ratio = 1e400", "not a value of column ratio"),
        ("ratio = 'NaN'", "not a value of column ratio"),
        ("flag = 1", "not a value of column flag"),
        ("id = true", "not a value of column id"),
        ("region = 5", "not a value of column region"),
        ("day = 5", "not a value of column day"),
        ("day = '2024-13-01'", "not a value of column day"),
        ("day > current_timestamp", "not a value of column day"),
        ("clock > '10:00+01:00'", "not a value of column clock"),
        ("uid = 'x'", "not a value of column uid"),
        ("ts = 5", "not a value of column ts"),
        ("day = date 'x'", "is not a date"),
        ("day = cast(5 as date)", "only casts of text"),
        ("id = cast('5' as int)", "only casts of text"),
        ("day = current_date - 99999999", "outside the calendar"),
        ("day = current_date - interval '9999' year", "outside the calendar"),
        ("day = current_date - interval '1' fortnight", "not an interval"),
        ("day = current_date - interval 'x' day", "not an interval"),
        ("day = current_date - 'x'", "number of days or an interval"),
        ("id = -'x'", "minus sign"),
        ("id", "is not a condition"),
        ("place = 'x'", "is a struct"),
        ("tags is null", "is a list"),
        ("tags.element = 'x'", "does not fit the table"),
        ("id in ()", "empty"),
        ("(" * 5_000 + "id = 1" + ")" * 5_000, "nested too deeply"),
        ("not " * 20_000 + "id = 1", "nested too deeply"),
        ("- " * 5_000 + "1 = id", "nested too deeply"),
        ("id = 1 or " * 20_000 + "id = 2", "characters long"),
    ],
)
def test_refused_filters_say_what_is_wrong(sql: str, says: str) -> None:
    with pytest.raises(BadPredicate) as caught:
        parse_predicate(sql, SCHEMA, NOW)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 700


def test_a_long_chain_of_conditions_is_not_too_deep() -> None:
    expression, _ = parse_predicate(" or ".join(f"id = {n}" for n in range(3_000)), SCHEMA, NOW)
    bind(SCHEMA, expression, case_sensitive=True)


@given(st.text(alphabet="id =<>()'\"`%-1.;,day regoin notulkbeweisc_", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        expression, resolved = parse_predicate(text, SCHEMA, NOW)
    except BadPredicate:
        return
    assert parse_predicate(resolved, SCHEMA, 0)[0] == expression


@pytest.mark.parametrize(
    "value", ["-9999999999999999999999999999.9999999999", "1234567890123456789012345678.0000000001"]
)
def test_decimals_keep_all_of_their_38_digits(value: str) -> None:
    schema = Schema(NestedField(1, "amount", DecimalType(38, 10)))
    expression, text = parse_predicate(f"amount >= {value}", schema, NOW)
    assert isinstance(expression, GreaterThanOrEqual)
    assert expression.literal == DecimalLiteral(Decimal(value))
    assert text == f"amount >= {value}"
