"""The filter language: what parses and what it means, errors that point at the place, and what a reader may skip."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdeck import InvalidFilter, QdeckError
from qdeck._filter import FIELDS, STATES, Pushdown, TimeRange
from qdeck.admin import explain, parse
from support.records import NOW, Job

MINUTE, HOUR = 60_000, 3_600_000


def matches(text: str, **changes: Any) -> bool:
    return parse(text).matches(Job(**changes), NOW)


# What it means


@pytest.mark.parametrize(
    "text",
    [
        "error:Timeout* queue:billing age>2h attempts>=3 payload.user.id:42 -tag:test clone",
        "",
        "  \n",
        "RESET",
        '"connection reset"',
        "conn*peer",
        '"\\"" or reset',
        "nothing or reset",
        "nothing OR (reset and clone)",
        "-nothing -(absent or reset) or -absent",
        "-(-reset)",
        "id:01J",
        "state:dead,done",
        "state:d*",
        "state!=done",
        "error:*",
        "error:Time*Error",
        'worker:""',
        "-worker:*",
        "worker!=w1",
        'message:"Connection reset by peer, twice"',
        'message:"*reset*, twice"',
        'name:"CloneUrl(42)"',
        "name:CloneUrl(42)",
        "(name:CloneUrl(42))",
        "name:other,CloneUrl(42)",
        "CloneUrl(42)",
        "name:CloneUrl(*)",
        "name=CloneUrl*",
        "tag:eu",
        "tags:n*",
        "tag:x,eu",
        "tag:*",
        "tag!=test",
        "priority:NORMAL",
        "priority:high,normal",
        "priority<=100",
        "priority<100.5",
        "priority!=HIGH",
        "attempts:1,2,3",
        "attempts>2",
        "crashes<1",
        "crashes>-1",
        "attempts:*",
        "age>2h",
        "age>=180m",
        "age<3h1ms",
        "age:3h",
        "age!=2h",
        "age<1w",
        "failed>119m",
        "failed<3h",
        "failed>now-3h",
        "failed<now",
        "failed:2026-11-18",
        "failed:2026-11-17,2026-11-18",
        "failed:2026-11-18T10:00",
        "failed:2026-11-18T11:00+01:00",
        'failed:"2026-11-18 10:00:00"',
        "failed>=2026-11-18T10:00:00.000Z",
        "failed!=2026-11-17",
        "enqueued<2026-11-19",
        "-due:*",
        "payload.user.id:42",
        "payload.user.id:4*",
        "payload.user.id:42.0",
        "payload.user.id>=42",
        'payload.user."a.b":true',
        "payload.n:null",
        "payload.n:*",
        "payload.user:*",
        "payload.0:7",
        "payload.1.deep:2",
        "payload.1.deep.0:1",
        "payload.args.0:7",
        "payload.kwargs.user.id:42",
        "payload.absent!=1",
    ],
)
def test_matches(text: str) -> None:
    assert matches(text)


@pytest.mark.parametrize(
    "text",
    [
        "nothing",
        "reset nothing",
        "-reset",
        "peer*connection",
        '"reset\\*"',
        "id:01j",
        "queue:bill",
        "state:done",
        "error:timeout*",
        'error:""',
        "error:*x*",
        "error!=Timeout*,Other",
        "worker:*",
        "worker:w*",
        "tag:e",
        "tag!=eu,x",
        'tag:""',
        "priority>NORMAL",
        "attempts!=3",
        "attempts!=*",
        "age>3h",
        "age:2h",
        "due<7d",
        "due>7d",
        "failed:2026-11-17",
        "failed>2h",
        "payload.user.id:43",
        "payload.user.id>42",
        "payload.user:x",
        "payload.n>0",
        "payload.user.a.b:true",
        "payload.2:7",
        "payload.1.deep.9:1",
        "payload.0.x:7",
        "payload.absent:*",
    ],
)
def test_matches_not(text: str) -> None:
    assert not matches(text)


def test_due_counts_forward() -> None:
    job = {"state": "delayed", "due_ms": NOW + 10 * MINUTE}
    assert matches("due<15m due>5m due:10m due>now due<now+11m", **job)
    assert not matches("due<10m", **job)
    assert matches("due<1s due<now", due_ms=NOW - HOUR)


def test_payload_that_is_no_call_starts_at_its_root() -> None:
    assert matches(
        "payload.data.id:a payload.data.at>2026-11-17", data={"data": {"id": "a", "at": "2026-11-17T08:00Z"}}
    )
    assert matches("payload.1:b", data=["a", "b"])
    assert not matches("payload.a:b", data="text")
    assert not matches("payload.at>2026-11-17", data={"at": "soon"})
    assert not matches("payload.at>1", data={"at": True})
    assert matches("payload.args:x", data=[[], {"args": "x"}])
    assert matches("payload.ratio:0.5 payload.ratio<0.6", data={"ratio": 0.5})


def test_absent_values_satisfy_no_comparison_and_their_negation_holds() -> None:
    bare = {"priority": None, "since_ms": None, "error": None, "tags": ()}
    assert not matches("priority<1 or priority>0 or priority:100 or age>1s or age<1s or error:T* or tag:*", **bare)
    assert matches('priority!=100 -age>1s -priority:* error:"" tag:""', **bare)


@given(st.text("ab*", max_size=8), st.text("ab", max_size=10))
def test_wildcards_are_the_same_as_those_of_a_regular_expression(value: str, name: str) -> None:
    if not value.strip("*"):
        return
    pattern = ".*".join(map(re.escape, value.split("*")))
    assert matches(f"name:{value}", name=name) == (re.fullmatch(pattern, name) is not None)
    assert matches(value, id="", name=name, task="", error="", message="") == (re.search(pattern, name) is not None)


# What it reads


def test_payload_is_read_only_when_all_else_holds() -> None:
    job = Job()
    assert not parse("payload.user.id:42 attempts>5").matches(job, NOW)
    assert parse("payload.user.id:42 or attempts:3").matches(job, NOW)
    assert job.reads == 0
    assert parse("payload.user.id:42 attempts:3").matches(job, NOW)
    assert job.reads == 1


def test_fields_that_are_needed() -> None:
    assert parse("a error:x or -(payload.a:1 age>2h)").fields == {"text", "error", "payload", "age"}
    assert parse("").fields == frozenset()


def test_one_moment_for_a_pass() -> None:
    relative, fixed = parse("age>2h", now_ms=NOW), parse("attempts:3")
    assert relative.is_relative
    assert not fixed.is_relative
    assert relative.matches(Job())
    assert not relative.matches(Job(), NOW - 2 * HOUR)
    assert relative.compile(NOW)(Job())
    assert fixed.compile() is fixed.compile(NOW)
    assert parse("failed<now").matches(Job(failed_ms=0)), "without a moment, the local clock"
    assert parse("-(a or due:now+1h)".replace(":now", "<now")).is_relative


def test_blank_filter_says_that_it_is_everything() -> None:
    assert parse(" ").is_everything
    assert str(parse(" ")) == ""
    assert not parse("a").is_everything


@pytest.mark.parametrize(
    ("text", "pushed"),
    [
        ("", Pushdown()),
        ("a error:x payload.a:1 attempts>1", Pushdown()),
        ("queue:a,b state:dead id:1", Pushdown(queues=frozenset("ab"), states=frozenset({"dead"}), ids=frozenset("1"))),
        ("queue:a* adapter:native", Pushdown(adapters=frozenset({"native"}))),
        ("queue:a,b*", Pushdown()),
        ("queue:a,b queue:b,c", Pushdown(queues=frozenset("b"))),
        ("queue:a or queue:b attempts>1", Pushdown(queues=frozenset("ab"))),
        ("queue:a or attempts>1", Pushdown()),
        ("-queue:a", Pushdown()),
        ("state:d*", Pushdown(states=frozenset({"delayed", "done", "dead"}))),
        ("-state:dead,done", Pushdown(states=frozenset(STATES) - {"dead", "done"})),
        ("-(state:dead or state!=done,dead)", Pushdown(states=frozenset({"done"}))),
        ("-(state:dead queue:a)", Pushdown()),
        ("age>2h", Pushdown(since=TimeRange(hi_ms=NOW - 2 * HOUR - 1))),
        ("age>=2h age<3h", Pushdown(since=TimeRange(lo_ms=NOW - 3 * HOUR + 1, hi_ms=NOW - 2 * HOUR))),
        ("age:2h", Pushdown(since=TimeRange(lo_ms=NOW - 3 * HOUR + 1, hi_ms=NOW - 2 * HOUR))),
        ("-age>2h", Pushdown()),
        ("due<5m", Pushdown(due=TimeRange(hi_ms=NOW + 5 * MINUTE - 1))),
        ("due>5m or due:1m", Pushdown(due=TimeRange(lo_ms=NOW + MINUTE))),
        ("failed:2026-11-18", Pushdown(failed=TimeRange(lo_ms=NOW - 12 * HOUR, hi_ms=NOW + 12 * HOUR - 1))),
        ("failed:2026-11-18,2026-11-16", Pushdown(failed=TimeRange(lo_ms=NOW - 60 * HOUR, hi_ms=NOW + 12 * HOUR - 1))),
        ("enqueued<=now-1h", Pushdown(enqueued=TimeRange(hi_ms=NOW - HOUR))),
        ("enqueued:*", Pushdown()),
    ],
)
def test_pushdown(text: str, pushed: Pushdown) -> None:
    assert parse(text, NOW).pushdown() == pushed


def test_restricted_keeps_what_is_known() -> None:
    known = {"queue", "attempts"}
    assert str(parse("queue:a payload.a:1 -(attempts>3 or b)").restricted(known)) == "queue:a -attempts>3"
    assert str(parse("-(queue:a payload.a:1)").restricted(known)) == ""
    assert str(parse("queue:a or b").restricted(known)) == ""
    assert parse("queue:a or b").restricted(known).is_everything


# How it is written


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a  and\tb", "a b"),
        ("(a)", "a"),
        ("a (b c)", "a b c"),
        ("a or (b or c)", "a or b or c"),
        ("(a or b) c", "(a or b) c"),
        ("-(-a)", "a"),
        ("-(a b)", "-(a b)"),
        ('"a"', "a"),
        ('"or" "AND"', '"or" "AND"'),
        ('"-a" "a b" "a:b"', '"-a" "a b" "a:b"'),
        ("a**b", "a*b"),
        ('name:"a"', "name:a"),
        ('name:"a\\*b*c d"', 'name:"a\\*b*c d"'),
        (r"name:C:\x", r'name:"C:\\x"'),
        ("tags:a,a,b", "tag:a,b"),
        ("name=a", "name:a"),
        ("priority:high", "priority:50"),
        ("attempts:007,2.50", "attempts:7,2.5"),
        ("age>1h30m", "age>90m"),
        ("age<1s5ms", "age<1005ms"),
        ("age<999w1ms", "age<604195200001ms"),
        ("failed>2026-11-18T10:00:00.5+02:00", "failed>2026-11-18T08:00:00.5Z"),
        ("failed>2026-11-18T10:00:00.1234", "failed>2026-11-18T10:00:00.123Z"),
        ("failed>0001-01-01", "failed>0001-01-01"),
        ("due<now+0h", "due<now"),
        ('payload."a".0."b c":x', 'payload.a.0."b c":x'),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


# What is wrong


@pytest.mark.parametrize(
    ("text", "position", "message", "hint"),
    [
        ("eror:x", 0, "unknown field 'eror'", "Did you mean 'error'?"),
        ("a State:dead", 2, "unknown field 'State'", "'state'"),
        ("status:dead", 0, "unknown field 'status'", "'state'"),
        ("created>2h", 0, "unknown field 'created'", "'enqueued'"),
        ("zzz:1", 0, "unknown field 'zzz'", "The fields are id, name"),
        ("http://x", 0, "unknown field 'http'", "quote it"),
        ("priority>abc", 9, "'abc' is not a number", "CRITICAL, HIGH"),
        ("attempts>HIGH", 9, "'HIGH' is not a number", "attempts>=3"),
        ("attempts:1e999", 9, "not a number", "takes a number"),
        ("attempts:3*", 9, "'attempts' does not take patterns", "attempts:*"),
        ('attempts:""', 9, "'' is not a number", "takes a number"),
        ("attempts>*", 9, "take patterns", "compare"),
        ("attempts:", 9, "no value after 'attempts:', at the end", "attempts:*"),
        ("error: x", 6, "no value after 'error:'", 'error:""'),
        ("(error:)", 7, "no value", "without a space"),
        ("age>2x", 5, "'x' is not a unit of time", "90s, 15m, 2h, 7d"),
        ("age>90", 4, "'90' without a unit", "90m"),
        ("age>2hours", 5, "'hours' is not a unit", "90s"),
        ("age>1.5h", 4, "'1.5h' is not an age", "1h30m"),
        ("age>2026-11-18", 4, "is a time, and 'age' is a length", "enqueued<2026-11-18"),
        ("age>999999999w1ms", 4, "is not an age", "90s"),
        ("age>now", 4, "is a time", "enqueued<now"),
        ("age > 2h", 4, "no field before '>'", "without spaces"),
        ("age:>2h", 4, "'>' right after 'age:'", "age>2h"),
        ("age=>2h", 4, "'>' right after 'age='", "one operator"),
        ("error:!x", 6, "'!' right after 'error:'", "error!=value"),
        ("attempts==3", 9, "'=' right after 'attempts='", "one operator"),
        ("failed>yesterday", 7, "'yesterday' is not a time", "now-2h"),
        ("failed>2026-13-01", 7, "not a time", "2026-11-18"),
        ("failed>9999-12-31T23:59-12:00", 7, "not a time", "2026-11-18"),
        ("failed>now-", 7, "not a time", "now-2h"),
        ("due:now", 4, "would match a single moment only", "due<now"),
        ("error>5", 5, "'error' cannot be compared", "error:value"),
        ("state:ded", 6, "unknown state 'ded'", "'dead'"),
        ("-state:dead_letter", 7, "unknown state", "'dead'"),
        ("state:x*", 6, "unknown state", "ready, delayed"),
        ("state:dead, done", 11, "an empty value in a list", "space"),
        ("tag:,a", 4, "an empty value", "comma"),
        ("state:(dead or done)", 6, "a bracket in place of a value", "commas"),
        ("attempts>1,2", 11, "several values after 'attempts>'", "one value"),
        ("name:CloneUrl(42, 1)", 13, "an opening bracket inside a word", 'name:"CloneUrl(42, 1)"'),
        ("a or(b)", 4, "an opening bracket inside a word", "a space before it"),
        ("name:f(x", 6, "an opening bracket inside a word", "quotes"),
        ('name:f("x")', 6, "an opening bracket inside a word", "quotes"),
        ("(a)b", 3, "right after a bracket", "space"),
        ('"a"b', 3, "right after a phrase", "space"),
        ('name:"a"b', 8, "right after a quoted value", "space"),
        ('a"b"', 1, "a quote inside a word", "whole text"),
        ('name:a"b"', 6, "a quote inside a word", "whole text"),
        ('a "b', 2, "a quote that is not closed", "Add the closing quote"),
        ('name:"b\\"', 5, "a quote that is not closed", "Add the closing quote"),
        ("“a b”", 0, "is not a quote here", "plain quote"),
        ("name:“a", 5, "is not a quote here", "plain quote"),
        ("(a", 0, "a bracket that is not closed", "Add"),
        ("a)", 1, "a closing bracket without an opening one", "Remove"),
        ("()", 1, "a condition is missing", "Write one"),
        ("a or", 4, "a condition is missing, at the end", "Write one"),
        ("a and", 5, "a condition is missing, at the end", "Write one"),
        ("or a", 0, "nothing before 'or'", "between two"),
        ("a and or b", 6, "nothing before 'or'", "between two"),
        ("a -", 2, "nothing right after '-'", "-tag:test"),
        ("(-)", 1, "nothing right after '-'", "-tag:test"),
        ("--a", 0, "two '-' in a row", "quote it"),
        ("*", 0, "'*' alone matches everything", "empty filter"),
        ('-"*"', 1, "'*' alone matches everything", "empty filter"),
        ('""', 0, "nothing to search for", "empty filter"),
        ("payload:x", 0, "'payload' without a path", "payload.user.id:42"),
        ("payload..a:1", 8, "an empty part in a path", "payload.a.b"),
        ("payload.:1", 8, "an empty part in a path", "payload.a.b"),
        ("payload.*:1", 8, r"'\*' in a path", "quote"),
        ('payload."a"', 11, "no comparison", ":"),
        ('payload."a"b:1', 11, "no comparison", ":"),
        ("payload.a>b", 10, "'b' is neither a number nor a time", "':'"),
        ("eror:x age>2x", 0, "unknown field", "error"),
        ("age>2x eror:x", 5, "not a unit", "2h"),
        ('* "', 0, "alone matches everything", "empty filter"),
        pytest.param("(" * 60 + "a" + ")" * 60, 50, "brackets nested too deeply", "50", id="deep"),
        pytest.param("a" * 100_001, 100_000, "too long", "100000", id="long"),
    ],
)
def test_error_points_at_the_place(text: str, position: int, message: str, hint: str) -> None:
    with pytest.raises(InvalidFilter, match=message) as caught:
        parse(text)
    assert caught.value.position == position
    assert hint in caught.value.hint


def test_error_is_of_the_one_root() -> None:
    with pytest.raises(ValueError, match="at character 5") as caught:
        parse("age>x")
    assert isinstance(caught.value, QdeckError)


def error_of(text: str) -> InvalidFilter:
    with pytest.raises(InvalidFilter) as caught:
        parse(text)
    return caught.value


def test_explained_error_has_a_caret_under_the_place() -> None:
    text = "queue:billing age>2x"
    assert explain(text, error_of(text)) == (
        "'x' is not a unit of time, at character 20\n"
        "  queue:billing age>2x\n"
        "                     ^\n"
        "An age is a number and a unit, ms s m h d or w: 90s, 15m, 2h, 7d, 1h30m."
    )


@pytest.mark.parametrize("before", ["", "名前 ", "e\u0301 ", "a\tb\n", "a\x1b[31m "])
def test_caret_stands_under_the_place_whatever_comes_before(before: str) -> None:
    text = f"{before}age>x"
    _, shown, caret, _ = explain(text, error_of(text)).split("\n")
    wide = sum(character in "名前" for character in before) - sum(character == "\u0301" for character in before)
    assert len(caret) - 1 == shown.index("x", shown.index("age>")) + wide
    assert "\x1b" not in shown


def test_long_filter_is_shown_around_the_place() -> None:
    text = "a " * 200 + "age>x" + " b" * 200
    _, shown, caret, _ = explain(text, error_of(text), width=40).split("\n")
    assert shown.startswith("  …")
    assert shown.endswith("…")
    assert len(shown) == 2 + 1 + 40 + 1
    assert shown[len(caret) - 1] == "x"


def test_every_field_has_its_place_in_a_record() -> None:
    places = {place.name for place in fields(Job)} | {"payload"}
    assert {known.attribute for known in FIELDS.values()} <= places
