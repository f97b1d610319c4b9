"""Which filters of a table are read from SQL, and that nothing in a log is fatal."""

from datetime import datetime
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tidyberg.model.table import TableRef
from tidyberg.model.workload import AllOf, AnyOf, Anything, Comparison, Condition, Operator, Workload
from tidyberg.planning.workload.sql_queries import LoggedQuery, QueryReader, statements

POINT = StructType(NestedField(5, "x", IntegerType(), required=False))
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "ts", TimestamptzType(), required=False),
    NestedField(3, "region", StringType(), required=False),
    NestedField(4, "point", POINT, required=False),
    NestedField(6, "day", DateType(), required=False),
    NestedField(7, "price", DecimalType(9, 2), required=False),
    NestedField(8, "active", BooleanType(), required=False),
)
NOW = datetime.fromisoformat("2026-11-17T12:00")
EQ, IN, LT, LE, GT, GE = Operator.EQ, Operator.IN, Operator.LT, Operator.LE, Operator.GT, Operator.GE
HOUR = 3_600_000_000
DAY = 24 * HOUR
NOV_17 = 20_774 * DAY


def read(*queries: str | LoggedQuery, dialect: str | None = None) -> Workload:
    logged = [one if isinstance(one, LoggedQuery) else LoggedQuery(one) for one in queries]
    return QueryReader(TableRef("lake", ("analytics",), "events"), SCHEMA, NOW, dialect).workload(logged)


def conditions(query: str, dialect: str | None = None) -> list[Condition]:
    found = read(query, dialect=dialect)
    assert not found.unreadable
    return [one.condition for one in found.filters]


def where(text: str) -> Condition:
    (condition,) = conditions(f"select * from analytics.events where {text}")
    return condition


def one(column: str, operator: Operator, *values: Any) -> Comparison:
    return Comparison(column, operator, values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 5", one("id", EQ, 5)),
        ("5 < id", one("id", GT, 5)),
        ("5 >= id", one("id", LE, 5)),
        ("id in (1, 2, 1)", one("id", IN, 1, 2)),
        ("id between 3 and 9", AllOf((one("id", GE, 3), one("id", LE, 9)))),
        ("region is null", one("region", Operator.IS_NULL)),
        ("region is not null", one("region", Operator.NOT_NULL)),
        ("region like 'eu%'", one("region", Operator.STARTS_WITH, "eu")),
        ("region like 'eu_x%'", one("region", Operator.STARTS_WITH, "eu")),
        ("region like 'eu'", one("region", EQ, "eu")),
        ("region like '%eu'", Anything()),
        ("point.x > 3", one("point.x", GT, 3)),
        ("active", one("active", EQ, True)),
        ("ID = 5 and REGION = 'EU'", AllOf((one("id", EQ, 5), one("region", EQ, "EU")))),
        ("id = 5 or region = 'eu'", AnyOf((one("id", EQ, 5), one("region", EQ, "eu")))),
        ("id = 5 or rand() < 0.5", Anything()),
        ("id = 5 and rand() < 0.5", one("id", EQ, 5)),
        ("id = 5 and nothing = 7", one("id", EQ, 5)),
        ("id = 'abc'", Anything()),
        ("id + 1 = 5", Anything()),
        ("id != 5", Anything()),
        ("id not in (1, 2)", Anything()),
        ("not id < 5", one("id", GE, 5)),
        ("not (id < 5 or region is null)", AllOf((one("id", GE, 5), one("region", Operator.NOT_NULL)))),
        ("id not between 3 and 5", AnyOf((one("id", LT, 3), one("id", GT, 5)))),
        ("region not like 'eu%'", Anything()),
        ("id = ?", Comparison("id", EQ, None)),
        ("id = :name", Comparison("id", EQ, None)),
        ("id in (select k from dim)", Comparison("id", IN, None)),
        ("day >= date '2026-11-17'", one("day", GE, 20_774)),
        ("day >= current_date - 7", one("day", GE, 20_767)),
        ("ts >= timestamp '2026-11-17 01:00:00'", one("ts", GE, NOV_17 + HOUR)),
    ],
)
def test_a_condition_is_read_as(text: str, expected: Condition) -> None:
    assert where(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("date(ts) = '2026-11-17'", AllOf((one("ts", GE, NOV_17), one("ts", LT, NOV_17 + DAY)))),
        ("cast(ts as date) > '2026-11-17'", one("ts", GE, NOV_17 + DAY)),
        ("to_date(ts) >= '2026-11-17'", one("ts", GE, NOV_17)),
        ("date(ts) <= '2026-11-17'", one("ts", LT, NOV_17 + DAY)),
        ("date(ts) < '2026-11-17'", one("ts", LT, NOV_17)),
        ("date(day) = '2026-11-17'", one("day", EQ, 20_774)),
        ("date_trunc('hour', ts) < timestamp '2026-11-17 01:30:00'", one("ts", LT, NOV_17 + 2 * HOUR)),
        ("date_trunc('hour', ts) >= timestamp '2026-11-17 01:30:00'", one("ts", GE, NOV_17 + 2 * HOUR)),
        ("date_trunc('month', ts) <= timestamp '2026-10-05 00:00:00'", one("ts", LT, NOV_17 - 16 * DAY)),
        ("year(ts) = 2026", AllOf((one("ts", GE, 20_454 * DAY), one("ts", LT, 20_819 * DAY)))),
        ("year(day) >= 2026", one("day", GE, 20_454)),
        ("date(ts) = ?", AllOf((Comparison("ts", GE, None), Comparison("ts", LT, None)))),
        ("month(ts) = 3", Anything()),  # it starts again every year
    ],
)
def test_a_monotone_function_is_a_range_of_its_column(text: str, expected: Condition) -> None:
    assert where(text) == expected


@pytest.mark.parametrize(
    "query",
    [
        "select * from events where id = 5",
        "select * from analytics.events where analytics.events.id = 5",
        "select * from LAKE.Analytics.EVENTS as e where e.id = 5",
        "select * from prod.analytics.events e where id = 5",
        "select * from `analytics`.`events` where `id` = 5",
        'select * from "analytics"."events" where "id" = 5',
        "with e as (select * from events) select count(*) from e where id = 5",
        "with e as (select id as k from events) select * from e where k = 5",
        "select * from (select id from events) q where q.id = 5",
        "select * from (select * from (select * from events)) where id = 5",
        "select * from events join dim on events.region = dim.r where events.id = 5 and dim.id = 7",
        "select * from events e join dim on e.region = dim.r and e.id = 5",
        "select * from dim where exists (select 1 from events where id = 5)",
        "insert into other select * from events where id = 5",
        "create table other as select * from events where id = 5",
        "delete from events where id = 5",
        "update events set region = 'eu' where id = 5",
        "select * from events where id = 5 union all select * from dim",
    ],
)
def test_the_table_is_found_by_every_name(query: str) -> None:
    assert conditions(query) == [one("id", EQ, 5)]


@pytest.mark.parametrize(
    "query",
    [
        "select * from other.events where id = 5",
        "select * from events_old where id = 5",
        "select 1",
        "with events as (select * from dim) select * from events where id = 5",
    ],
)
def test_other_tables_do_not_count(query: str) -> None:
    found = read(query)
    assert (found.filters, found.elsewhere, found.unreadable) == ((), 1, ())


def test_each_use_of_the_table_is_a_scan_of_its_own() -> None:
    found = conditions("select * from events a join events b on a.id = b.id where a.id = 1 and b.region = 'eu'")
    assert found == [one("id", EQ, 1), one("region", EQ, "eu")]


def test_a_filter_on_one_use_of_a_shared_expression_does_not_filter_the_scan() -> None:
    assert conditions("with c as (select * from events) select * from c where id = 1 union all select * from c") == [
        Anything()
    ]


@pytest.mark.parametrize(
    "inner", ["select * from events limit 5", "select id, row_number() over (order by ts) n from events"]
)
def test_a_filter_after_a_limit_or_window_does_not_reach_the_scan(inner: str) -> None:
    assert conditions(f"select * from ({inner}) q where id = 5") == [Anything()]


def test_the_condition_of_an_outer_join_filters_nothing() -> None:
    assert conditions("select * from events left join dim on events.id = 5") == [Anything()]


def test_the_condition_of_an_anti_join_filters_nothing() -> None:
    for kind in ("anti", "left anti"):
        assert conditions(f"select * from events e {kind} join users u on e.id = u.id and e.id > 5") == [Anything()]
    assert conditions("select * from events e semi join users u on e.id = u.id and e.id > 5") == [one("id", GT, 5)]


@pytest.mark.parametrize("kind", ["left semi", "left anti", "semi", "anti"])
def test_the_right_side_of_a_semi_or_anti_join_is_a_scan(kind: str) -> None:
    found = read(f"select * from users u {kind} join events e on e.id = u.id", dialect="spark")
    assert (len(found.filters), found.elsewhere) == (1, 0)


NULL_OR_5 = "(e.id is null or e.id > 5)"


@pytest.mark.parametrize(
    "source",
    [
        "users u left join events e on e.id = u.id",
        "events e right join users u on e.id = u.id",
        "events e full join users u on e.id = u.id",
        "users u full join events e on e.id = u.id",
        "users u left join (select * from events) e on e.id = u.id",
        "(select e.id from users u left join events e on e.id = u.id) e",
        "users u left join (events e join others o on e.id = o.id) on e.id = u.id",
        "(users u left join events e on e.id = u.id)",
    ],
)
def test_a_null_that_an_outer_join_adds_is_no_null_of_the_table(source: str) -> None:
    assert conditions(f"select * from {source} where e.id is null") == [Anything()]
    assert conditions(f"select * from {source} where {NULL_OR_5}") == [Anything()]
    assert conditions(f"select * from {source} where e.id > 5") == [one("id", GT, 5)]


@pytest.mark.parametrize(
    "source",
    [
        "events e left join users u on e.id = u.id",
        "users u right join events e on e.id = u.id",
        "events e join users u on e.id = u.id",
        "users u left join (select * from events e where e.id is null) x on x.id = u.id",
    ],
)
def test_a_null_of_the_side_that_an_outer_join_keeps_is_one_of_the_table(source: str) -> None:
    filtered = source if "where" in source else f"{source} where e.id is null"
    assert conditions(f"select * from {filtered}") == [one("id", Operator.IS_NULL)]


@pytest.mark.parametrize("text", ["explain select * from events", "vacuum events"])
def test_a_command_is_reported_as_one(text: str, caplog: pytest.LogCaptureFixture) -> None:
    (why,) = read(text).unreadable
    assert why.endswith(": it is a command, not a query")
    assert not caplog.records


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("when matched then delete", one("id", EQ, 5)),
        ("when not matched then insert *", one("id", EQ, 5)),
        ("when not matched by source then delete", Anything()),
    ],
)
def test_a_merge_scans_the_table_that_it_changes(clause: str, expected: Condition) -> None:
    found = read(f"merge into events t using new n on t.region = n.region and t.id = 5 {clause}")
    assert [one.condition for one in found.filters] == [expected]
    assert found.elsewhere == 0


def test_a_merge_that_reads_the_table_scans_it_twice() -> None:
    query = "merge into events t using (select * from events where id = 5) n on t.region = 'x' when matched then delete"
    assert conditions(query) in (
        [one("region", EQ, "x"), one("id", EQ, 5)],
        [one("id", EQ, 5), one("region", EQ, "x")],
    )


def test_joins_are_counted_by_column() -> None:
    found = read(LoggedQuery("select * from events e join dim d on e.region = d.r and d.k = e.id", 3))
    assert found.joined_on == {"region": 3, "id": 3}


def test_current_date_is_that_of_the_query() -> None:
    (found,) = read(
        LoggedQuery("select * from events where day = current_date", at=datetime.fromisoformat("2026-01-02T00:00"))
    ).filters
    assert found.condition == one("day", EQ, 20_455)


@pytest.mark.parametrize(
    "text", ["selec broken frm", "select * from", "'", "select (" * 5000, "select 1; select 2", "x" * 200_000]
)
def test_a_statement_that_cannot_be_parsed_is_counted_and_not_fatal(text: str) -> None:
    found = read(text, "select * from events where id = 5")
    assert len(found.unreadable) == 1
    assert [one.condition for one in found.filters] == [one("id", EQ, 5)]
    assert len(found.unreadable[0]) < 400


def test_every_statement_that_cannot_be_parsed_is_counted() -> None:
    assert len(read(*(["select * from"] * 1001)).unreadable) == 1001


def test_double_quotes_are_texts_in_spark_and_names_elsewhere() -> None:
    assert conditions('select * from events where region = "eu"', "spark") == [one("region", EQ, "eu")]
    assert conditions("select * from events where \"region\" = 'eu'", "trino") == [one("region", EQ, "eu")]
    assert conditions("select * from events where \"region\" = 'eu'") == [one("region", EQ, "eu")]


def test_an_apostrophe_that_spark_escapes_does_not_end_its_text() -> None:
    assert list(statements(r"select 'it\'s; a'; select 'b'; select 2")) == [
        r"select 'it\'s; a'",
        "select 'b'",
        "select 2",
    ]
    assert list(statements(r"select 1 where a like 'x\' ; select 'c:\'; select 2")) == [
        r"select 1 where a like 'x\'",
        r"select 'c:\'",
        "select 2",
    ]


def test_statements_are_split_at_semicolons_outside_of_quotes_and_comments() -> None:
    text = "select ';'; -- a;b\nselect \"x;y\" /* ; */; \n-- only a comment\n; select `a;b`"
    assert list(statements(text)) == ["select ';'", '-- a;b\nselect "x;y" /* ; */', "select `a;b`"]
