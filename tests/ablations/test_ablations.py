"""Each safeguard is missed by a test when it is switched off: a promise without such a test is only a wish."""

from __future__ import annotations

import pytest

from ablations.ablate import ROOT, failing_test
from ablations.safeguards import SAFEGUARDS, Safeguard


@pytest.mark.parametrize("guard", SAFEGUARDS, ids=lambda guard: guard.name)
def test_what_is_switched_off_is_there(guard: Safeguard) -> None:
    assert (ROOT / guard.file).read_text("utf-8").count(guard.text) == 1
    assert guard.text != guard.without
    assert all((ROOT / test).exists() for test in guard.tests)


def test_the_readme_lists_every_safeguard() -> None:
    text = (ROOT / "tests" / "README.md").read_text("utf-8")
    assert [guard.name for guard in SAFEGUARDS if f"| {guard.name} | {guard.prevents} |" not in text] == []


@pytest.mark.slow
@pytest.mark.timeout(360)
@pytest.mark.parametrize("guard", SAFEGUARDS, ids=lambda guard: guard.name)
def test_a_test_notices(guard: Safeguard) -> None:
    assert failing_test(guard)
