"""When runs are: tables of daylight saving, and what holds for any rule at any time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from qdeck import InvalidOption
from qdeck.admin import CronRule
from support.versions import NEEDS_CRONITER_6_2

ZONES = ("Europe/Madrid", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "UTC")


def runs(cron: str, tz: str, start: str, count: int) -> list[str]:
    zone = ZoneInfo(tz)
    moment = int(datetime.fromisoformat(start).replace(tzinfo=zone).timestamp())
    found = islice(CronRule(cron, tz).after(moment), count)
    return [datetime.fromtimestamp(run, zone).strftime("%d %H:%M %z") for run in found]


TABLE = [
    # The clock skips an hour on 29 March 2026 in Madrid, 8 March in New York, half an hour on 4 October in Lord Howe.
    ("30 2 * * *", "Europe/Madrid", "2026-03-28T00:00", "28 02:30 +0100|29 03:30 +0200|30 02:30 +0200"),
    ("0 2 * * *", "Europe/Madrid", "2026-03-28T12:00", "29 03:00 +0200|30 02:00 +0200"),
    ("0 3 * * *", "Europe/Madrid", "2026-03-28T12:00", "29 03:00 +0200|30 03:00 +0200"),
    ("*/30 * * * *", "Europe/Madrid", "2026-03-29T01:00", "29 01:30 +0100|29 03:00 +0200|29 03:30 +0200"),
    ("0 2,3 * * *", "Europe/Madrid", "2026-03-28T12:00", "29 03:00 +0200|30 02:00 +0200|30 03:00 +0200"),
    ("30 2 * * *", "America/New_York", "2026-03-07T12:00", "08 03:30 -0400|09 02:30 -0400"),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", "04 02:45 +1100|05 02:15 +1100"),
    # It shows an hour twice on 25 October in Madrid, 1 November in New York, half an hour on 5 April in Lord Howe.
    ("30 2 * * *", "Europe/Madrid", "2026-10-24T12:00", "25 02:30 +0200|26 02:30 +0100"),
    ("0 */2 * * *", "Europe/Madrid", "2026-10-25T00:30", "25 02:00 +0200|25 04:00 +0100"),
    ("30 * * * *", "Europe/Madrid", "2026-10-25T01:00", "25 01:30 +0200|25 02:30 +0200|25 02:30 +0100|25 03:30 +0100"),
    ("30 1 * * *", "America/New_York", "2026-10-31T12:00", "01 01:30 -0400|02 01:30 -0500"),
    ("30 * * * *", "America/New_York", "2026-11-01T00:45", "01 01:30 -0400|01 01:30 -0500|01 02:30 -0500"),
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", "05 01:45 +1100|06 01:45 +1030"),
    ("45 * * * *", "Australia/Lord_Howe", "2026-04-05T00:50", "05 01:45 +1100|05 01:45 +1030|05 02:45 +1030"),
    # A whole day that never was.
    ("0 9 * * *", "Pacific/Apia", "2011-12-29T08:00", "29 09:00 -1000|31 09:00 +1400|01 09:00 +1400"),
]


@pytest.mark.parametrize(("cron", "tz", "start", "wanted"), TABLE)
def test_daylight_saving_makes_neither_a_double_nor_a_gap(cron: str, tz: str, start: str, wanted: str) -> None:
    expected = wanted.split("|")
    assert runs(cron, tz, start, len(expected)) == expected


minutes = st.sampled_from(["0", "30", "*/15", "*", "7,37", "59", "0-5"])
hours = st.sampled_from(["*", "2", "1-3", "*/6", "0", "23", "2,3"])
days = st.sampled_from(["*", "1", "L", "*/2", "29"])
weekdays = st.sampled_from(["*", "0", "1-5", "sun"])
crons = st.builds("{} {} {} * {}".format, minutes, hours, days, weekdays)
# Near the changes of 2025 to 2027, where the errors would be.
moments = st.one_of(
    st.integers(1_735_689_600, 1_830_000_000),
    st.builds(
        lambda when, off: int(datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp()) + off,
        st.sampled_from(
            [
                "2026-03-29T01:00",
                "2026-10-25T01:00",
                "2026-03-08T07:00",
                "2026-11-01T06:00",
                "2026-04-04T15:00",
                "2026-10-03T15:30",
                "2011-12-30T10:00",
            ]
        ),
        st.integers(-90_000, 90_000),
    ),
)


@settings(max_examples=40, deadline=None)
@given(crons, st.sampled_from(ZONES), moments)
def test_the_next_turn_is_later_and_turns_are_in_order_from_wherever_one_starts(
    cron: str, tz: str, moment: int
) -> None:
    rule = CronRule(cron, tz)
    found = list(islice(rule.after(moment), 20))
    assert found[0] > moment
    assert all(a < b for a, b in pairwise(found))
    for previous, following in pairwise([moment, *found][:4]):
        assert rule.next(previous) == following
        assert rule.next(following - 1) == following


@settings(max_examples=40, deadline=None)
@given(crons, st.sampled_from(ZONES), moments)
def test_each_matching_time_of_the_clock_has_one_turn(cron: str, tz: str, moment: int) -> None:
    """Against the plainest way: every minute of the calendar that matches, turned into a moment."""
    zone, span = ZoneInfo(tz), timedelta(days=1)
    start = datetime.fromtimestamp(moment // 60 * 60, zone).replace(tzinfo=None)
    every_hour = cron.split()[1] == "*"
    expected = set()
    steps = croniter(cron, start.replace(tzinfo=UTC) - timedelta(days=2))
    while (wall := steps.get_next(datetime).replace(tzinfo=None)) < start + span + timedelta(days=2):
        first = wall.replace(tzinfo=zone).timestamp()
        again = wall.replace(tzinfo=zone, fold=1).timestamp()
        expected |= {int(first), int(again)} if every_hour and again > first else {int(first)}
    until = moment + int(span.total_seconds())
    rule = CronRule(cron, tz)
    found = [run for run in islice(rule.after(moment), 2000) if run <= until]
    assert found == sorted(run for run in expected if moment < run <= until)
    kept, before = rule.last_runs(moment, until, 10)
    assert kept == found[-10:]
    assert before == max(0, min(len(found), 300) - 10)


@pytest.mark.parametrize(
    "cron", ["", "bad", "60 * * * *", "* * * *", "0 0 30 2 *", "R * * * *", "H 3 * * *", "@reboot", "* * * * *\n", 5]
)
def test_a_rule_that_cannot_be_is_refused(cron: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        CronRule(cron)
    assert refused.value.hint


@pytest.mark.parametrize("tz", ["Europe/Nowhere", "", "../etc/passwd", "/etc/localtime", "CET\0"])
def test_a_zone_that_is_none_is_refused(tz: str) -> None:
    with pytest.raises(InvalidOption):
        CronRule("0 0 * * *", tz)


@pytest.mark.parametrize(
    ("cron", "tz", "start", "wanted"),
    [
        pytest.param("0 0 1 1 * 0 2090", "UTC", "2026-11-18", ["2090-01-01T00:00:00+00:00"], marks=NEEDS_CRONITER_6_2),
        ("0 12 29 2 *", "Europe/Madrid", "2026-11-18", ["2028-02-29T12:00:00+01:00", "2032-02-29T12:00:00+01:00"]),
        ("0 0 29 2 *", "UTC", "2096-03-01", ["2104-02-29T00:00:00+00:00"]),
        ("0 0 L * *", "UTC", "2027-02-01", ["2027-02-28T00:00:00+00:00", "2027-03-31T00:00:00+00:00"]),
        ("0 0 * * 5#2", "UTC", "2026-11-18", ["2026-12-11T00:00:00+00:00", "2027-01-08T00:00:00+00:00"]),
        ("0 0 * * L5", "UTC", "2026-11-18", ["2026-11-27T00:00:00+00:00", "2026-12-25T00:00:00+00:00"]),
        pytest.param(
            "0 0 15W * *",
            "UTC",
            "2026-11-01",
            ["2026-11-16T00:00:00+00:00", "2026-12-15T00:00:00+00:00"],
            marks=NEEDS_CRONITER_6_2,
        ),
        ("@daily", "Europe/Madrid", "2026-03-28", ["2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"]),
        ("0 0 13 * 5", "UTC", "2026-11-07", ["2026-11-13T00:00:00+00:00", "2026-11-20T00:00:00+00:00"]),
        ("0 0 * * * */20", "UTC", "2026-11-18", ["2026-11-18T00:00:20+00:00", "2026-11-18T00:00:40+00:00"]),
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T12:00",
            ["2026-10-04T02:45:00+11:00", "2026-10-05T02:15:00+11:00"],
        ),
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T12:00",
            ["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"],
        ),
        (
            "30 2 * * *",
            "Africa/Casablanca",
            "2026-03-21T12:00",
            ["2026-03-22T03:30:00+01:00", "2026-03-23T02:30:00+01:00"],
        ),
        (
            "1 0 * * *",
            "America/St_Johns",
            "2005-10-29T12:00",
            ["2005-10-30T00:01:00-03:30", "2005-10-31T00:01:00-03:30"],
        ),
        ("30 12 * * *", "Pacific/Apia", "2011-12-28T13:00", ["2011-12-29T12:30:00-10:00", "2011-12-31T12:30:00+14:00"]),
    ],
)
def test_odd_expressions_and_odd_zones(cron: str, tz: str, start: str, wanted: list[str]) -> None:
    zone = ZoneInfo(tz)
    moment = int(datetime.fromisoformat(start).replace(tzinfo=zone).timestamp())
    runs = islice(CronRule(cron, tz).after(moment), len(wanted))
    assert [datetime.fromtimestamp(run, zone).isoformat() for run in runs] == wanted


def test_a_rule_that_nobody_served_for_decades_holds_nobody_up() -> None:
    kept, before = CronRule("* * * * * *").last_runs(0, 1_800_000_000, 100)
    assert len(kept) == 100
    assert kept[-1] == 1_800_000_000
    assert before == 200
