"""`qdeck doctor`: check what works here, with a hint for what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from qdeck_console.check_labels import doctor_label
from qdeck_console.cli.base import command, read_only_hint, settings
from qdeck_console.cli.output import say, worst_first, write_json

if TYPE_CHECKING:
    from qdeck.admin import DoctorCheck

_SIGNS: Final = {True: ("ok", "ok"), False: ("!!", "bad"), None: ("??", "warn")}
_INDENT: Final = 20  # of what a check found


@command("doctor", examples=("qdeck doctor", "qdeck doctor --context prod --json"))
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Check connection, permissions, server settings and configuration.

    Nothing is changed. Exit code 0: every check passes, 1: a check fails.
    """
    from qdeck import NotAllowed

    given = settings()
    configuration, target = given.configuration(), given.target()
    read_only = read_only_hint(target, given.confirm) is not None
    with given.reader() as reader:
        found = reader.diagnosis(configuration, target, read_only=read_only)
    if given.as_json:
        write_json({"checks": [_shape(check) for check in found.checks]})
    else:
        for check in worst_first(found.checks, lambda check: (False, None, True).index(check.ok)):
            _print(check)
    if found.error is not None:
        ctx.exit(77 if isinstance(found.error, NotAllowed) else 69)
    ctx.exit(0 if found.is_well else 1)


def _shape(check: DoctorCheck) -> dict[str, Any]:
    return {
        "name": check.name,
        "ok": check.ok,
        "code": check.code,
        "detail": check.detail,
        "hint": check.hint or None,
        "command": check.command or None,
    }


def _print(check: DoctorCheck) -> None:
    say(_SIGNS[check.ok], (f"  {doctor_label(check.name):15} ", ""), (check.detail, ""), hang=_INDENT)
    if check.hint and not check.ok:
        say((check.hint, "faint"), indent=_INDENT)
