"""The filter language: one way to say which jobs, for every list, every bulk verb and every command.

    error:Timeout* queue:billing age>2h attempts>=3 payload.user.id:42 -tag:test "connection reset"

Grammar (a blank filter is everything; what does not parse is an InvalidFilter that points at the place):

    filter  = any                                     any    = all { "or" all }
    all     = not { ["and"] not }                     not    = [ "-" ] ( "(" any ")" | term | words )
    term    = field ( ":" | "!=" ) value { "," value }  |  field ( ">" | ">=" | "<" | "<=" ) value
    field   = name | "payload." segment { "." segment }
    words   = value                                   value  = bare text | "text with \\" \\\\ \\* escapes"

Meaning:

- Words and phrases are searched everywhere in a record, regardless of case. `*` stands for any text, inside
  quotes too; `\\*` inside quotes is a star.
- `field:value` compares the whole value, case-sensitively; several values are alternatives. `field:*` holds where there
  is a value, `field:""` (texts) where there is none. `tag` and payload lists match with one of their elements.
- `field!=value` is `-field:value`. An absent value satisfies no other comparison.
- Numbers: `attempts>=3`; a priority may be `HIGH`. Ages carry a unit: `90s 15m 2h 7d` (`ms` and `w` too, and `1h30m`).
- Times are ISO 8601, UTC unless they say otherwise, or `now`, `now-2h`, `now+5m`. An age in their place counts from
  now: `failed>2h` is more than two hours ago, `due<5m` in less than five minutes.
- Ages and times are equal to the precision written: `failed:2026-11-18` is that day, `age:2h` is 2h but not yet 3h.
- `payload.a.b` looks into the keyword arguments of a call, `payload.0` into its positional ones; in any other JSON the
  path starts at its root.
"""

from __future__ import annotations

from qdeck._filter.errors import explain
from qdeck._filter.fields import FIELDS, STATES, Field, FieldKind, Record
from qdeck._filter.filter import Filter, parse
from qdeck._filter.narrow import Pushdown
from qdeck._filter.times import TimeRange
from qdeck._priority_names import PRIORITIES, PRIORITY_NAMES

__all__ = [
    "FIELDS",
    "PRIORITIES",
    "PRIORITY_NAMES",
    "STATES",
    "Field",
    "FieldKind",
    "Filter",
    "Pushdown",
    "Record",
    "TimeRange",
    "explain",
    "parse",
]
