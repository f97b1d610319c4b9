"""Cron expressions: parsing, errors, and times in zones with daylight saving time."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.cron_model import slow_model
from tidyberg.errors import BadInput
from tidyberg.model.cron import ALIASES, between, next_after, parse_cron

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
LORD_HOWE, KATHMANDU = ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Asia/Kathmandu")
HAVANA, APIA = (
    ZoneInfo("America/Havana"),
    ZoneInfo("Pacific/Apia"),
)  # changes its clocks at midnight; skipped a whole day
MINUTE_MS = 60_000


def ms(text: str, zone: ZoneInfo | None = None) -> int:
    parsed = datetime.fromisoformat(text)
    return int(parsed.replace(tzinfo=parsed.tzinfo or zone or UTC).timestamp() * 1000)


def times(line: str, zone: ZoneInfo, after: str, until: str) -> list[str]:
    """Returns the times of the expression in the zone, with the offset."""
    found = between(parse_cron(line), ms(after, zone), ms(until, zone), zone)
    return [datetime.fromtimestamp(due / 1000, zone).isoformat(timespec="minutes") for due in found]


@pytest.mark.parametrize(
    ("line", "minutes", "hours"),
    [
        ("0 */6 * * *", (0,), (0, 6, 12, 18)),
        ("*/30 * * * *", (0, 30), tuple(range(24))),
        ("5,50-52 1-5/2 * * *", (5, 50, 51, 52), (1, 3, 5)),
        ("7-59/20 0 * * *", (7, 27, 47), (0,)),
        ("  00  09  *  *  * ", (0,), (9,)),
    ],
)
def test_lists_ranges_and_steps_are_parsed(line: str, minutes: tuple[int, ...], hours: tuple[int, ...]) -> None:
    cron = parse_cron(line)
    assert (cron.minutes, cron.hours) == (minutes, hours)


def test_names_of_months_and_weekdays_are_parsed_and_seven_is_sunday() -> None:
    cron = parse_cron("0 0 * JAN,mar-May Mon-Fri")
    assert cron.months == {1, 3, 4, 5}
    assert cron.weekdays == {1, 2, 3, 4, 5}
    assert parse_cron("0 0 * * 7").weekdays == parse_cron("0 0 * * sun").weekdays == {0}
    assert parse_cron("0 0 * * fri-sun").weekdays == parse_cron("0 0 * * 5-7").weekdays == {5, 6, 0}


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_aliases_equal_their_expressions(alias: str) -> None:
    after = ms("2026-03-04T05:06:07")
    assert next_after(parse_cron(alias), after, UTC) == next_after(parse_cron(ALIASES[alias]), after, UTC)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "has 0"),
        ("* * * *", "has 4"),
        ("0 0 0 * * *", "has 6"),
        ("60 * * * *", "'60' is not a minute; it goes from 0 to 59"),
        ("* 24 * * *", "'24' is not a hour"),
        ("* * 0 * *", "'0' is not a day of month"),
        ("* * * 13 *", "not a month; it goes from 1 to 12 or jan to dec"),
        ("* * * * 8", "not a day of week"),
        ("-1 * * * *", "'' is not a minute"),
        ("*/0 * * * *", "the step '0' of the minute must be a number from 1 to 60"),
        ("*/90 * * * *", "must be a number from 1 to 60"),
        ("*/ * * * *", "the step ''"),
        ("5/15 * * * *", "write 5-59/15"),
        ("0 22-2 * * *", "runs backwards"),
        ("1,,2 * * * *", "empty item"),
        ("0 0 L * *", "there is no #, L or W"),
        ("0 0 * * mon#2", "there is no #, L or W"),
        ("0 0 15W * *", "there is no #, L or W"),
        ("0 0 ? * *", "write *"),
        ("0 0 31 2 *", "day 31 never comes"),
        ("0 0 31 4,6,9,11 *", "never comes"),
        ("@reboot", "@reboot is not known"),
        ("@every 5m", "is not known"),
        ("٣ * * * *", "is not a minute"),
        ("0 0 * * monday", "is not a day of week"),
    ],
)
def test_bad_expressions_are_refused_with_the_mistake(line: str, says: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_cron(line)
    assert says in str(refused.value)


@given(st.text(alphabet="0123456789*/,-#?@LW ajn.\n", max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        cron = parse_cron(text)
    except BadInput:
        return
    assert next_after(cron, 0, UTC) > 0


def test_day_of_month_or_weekday_matches_unless_one_is_a_star() -> None:
    either = times("0 0 13 * fri", BERLIN, "2026-03-01", "2026-03-31")
    assert [text[8:10] for text in either] == ["06", "13", "20", "27"]
    assert [text[8:10] for text in times("0 0 1-14 * */5", BERLIN, "2026-02-28", "2026-03-31")] == [
        "01",
        "06",
        "08",
        "13",
    ]
    assert parse_cron("0 0 31 2 mon")  # Mondays in February


def test_leap_days_are_found_across_a_century_without_one() -> None:
    assert next_after(parse_cron("0 0 29 2 *"), ms("2096-02-29T00:00"), UTC) == ms("2104-02-29T00:00")
    assert next_after(parse_cron("0 0 29 2 */7"), ms("2088-03-01"), UTC) == ms("2128-02-29T00:00")


def test_fixed_time_in_the_dst_gap_fires_once_right_after_it() -> None:
    assert times("30 2 * * *", BERLIN, "2026-03-28T12:00", "2026-03-30T12:00") == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]
    assert times("0,20,40 2 * * *", BERLIN, "2026-03-29T00:00", "2026-03-29T12:00") == ["2026-03-29T03:00+02:00"]
    assert times("0 2,3 * * *", NEW_YORK, "2026-03-08T00:00", "2026-03-08T12:00") == ["2026-03-08T03:00-04:00"]
    assert times("10 2 * * *", LORD_HOWE, "2026-10-04T00:00", "2026-10-04T12:00") == ["2026-10-04T02:30+11:00"]
    assert times("0 0 * * *", HAVANA, "2026-03-07T12:00", "2026-03-08T12:00") == ["2026-03-08T01:00-04:00"]
    assert times("0 0 30 12 *", APIA, "2011-12-29T12:00", "2012-01-02T12:00") == ["2011-12-31T00:00+14:00"]


def test_fixed_time_that_occurs_twice_fires_only_the_first_time() -> None:
    assert times("30 2 * * *", BERLIN, "2026-10-25T00:00", "2026-10-26T12:00") == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]
    assert times("30 1 * * *", NEW_YORK, "2026-11-01T00:00", "2026-11-01T12:00") == ["2026-11-01T01:30-04:00"]
    assert times("45 1 * * *", LORD_HOWE, "2026-04-05T00:00", "2026-04-05T12:00") == ["2026-04-05T01:45+11:00"]
    second_time = next_after(parse_cron("30 2 * * *"), ms("2026-10-25T02:10+01:00"), BERLIN)
    assert second_time == ms("2026-10-26T02:30+01:00")


def test_interval_expression_fires_at_every_real_interval() -> None:
    for zone, day in (
        (BERLIN, "2026-03-29"),
        (BERLIN, "2026-10-25"),
        (LORD_HOWE, "2026-10-04"),
        (HAVANA, "2026-11-01"),
    ):
        found = list(between(parse_cron("*/30 * * * *"), ms(f"{day}T00:00", zone) - 1, ms(f"{day}T12:00", zone), zone))
        assert {after - before for before, after in pairwise(found)} == {30 * MINUTE_MS}
    assert times("15 * * * *", BERLIN, "2026-10-25T01:30", "2026-10-25T03:30") == [
        "2026-10-25T02:15+02:00",
        "2026-10-25T02:15+01:00",
        "2026-10-25T03:15+01:00",
    ]
    # Half an hour repeats there: it contains half past, but not the full hour.
    assert times("0,30 */1 * * *", LORD_HOWE, "2026-04-05T01:10", "2026-04-05T02:10") == [
        "2026-04-05T01:30+11:00",
        "2026-04-05T01:30+10:30",
        "2026-04-05T02:00+10:30",
    ]


def test_zones_with_odd_offsets_have_their_own_midnight() -> None:
    assert times("0 0 * * *", KATHMANDU, "2026-11-15T12:00", "2026-11-16T12:00") == ["2026-11-16T00:00+05:45"]
    assert next_after(parse_cron("0 0 * * *"), ms("2026-11-15T12:00"), KATHMANDU) == ms("2026-11-15T18:15")


def test_first_of_two_equal_times_is_found_from_half_a_year_before() -> None:
    assert next_after(parse_cron("* 2 25 10 *"), ms("2026-01-01"), BERLIN) == ms("2026-10-25T02:00+02:00")


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    pair = st.tuples(number, number).map(sorted)
    item = st.one_of(
        number.map(str),
        pair.map(lambda p: f"{p[0]}-{p[1]}"),
        st.tuples(pair, st.integers(1, 7)).map(lambda p: f"{p[0][0]}-{p[0][1]}/{p[1]}"),
    )
    star = st.one_of(st.just("*"), st.integers(1, min(high, 7)).map(lambda n: f"*/{n}"))
    return st.one_of(star, st.lists(item, min_size=1, max_size=3).map(",".join))


TURNS = [
    (BERLIN, "2026-03-29T01:00"),
    (BERLIN, "2026-10-25T01:00"),
    (NEW_YORK, "2026-03-08T07:00"),
    (NEW_YORK, "2026-11-01T06:00"),
    (LORD_HOWE, "2026-04-04T15:00"),
    (LORD_HOWE, "2026-10-03T15:30"),
    (HAVANA, "2026-03-08T05:00"),
    (HAVANA, "2026-11-01T05:00"),
    (APIA, "2011-12-30T10:00"),
    (KATHMANDU, "2026-03-29T00:00"),
]
# Near skipped or repeated hours, so that times often fall into them.
LINES = st.builds(
    lambda *parts: " ".join(parts),
    fields(0, 59),
    st.one_of(fields(0, 3), fields(0, 23)),
    st.one_of(st.just("*"), fields(1, 31)),
    st.one_of(st.just("*"), fields(1, 12)),
    st.one_of(st.just("*"), fields(0, 7)),
)


@settings(max_examples=100, deadline=None)
@given(line=LINES, turn=st.sampled_from(TURNS), before=st.integers(0, 1500))
def test_times_match_a_minute_by_minute_model(line: str, turn: tuple[ZoneInfo, str], before: int) -> None:
    try:
        cron = parse_cron(line)
    except BadInput:
        return  # such as 31 February
    zone, at = turn
    start = datetime.fromisoformat(at).replace(tzinfo=UTC) - timedelta(minutes=before)
    start_ms = int(start.timestamp() * 1000)
    length = before + 600  # minutes, until well after the change
    found = list(between(cron, start_ms, start_ms + length * MINUTE_MS, zone))
    assert found == list(slow_model(cron, start, length, zone))
