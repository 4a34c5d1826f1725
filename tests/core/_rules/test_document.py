"""Every acceptance line of the document on queue reliability, with the tests that show it.

Here they can be counted: five on dead letters, seven on the purge, eight on health. Each test says in its docstring
which line it shows.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).resolve().parents[2]
PURGE, HEALTH, AGENT = "core/_rules/test_purge.py", "core/_rules/test_health.py", "core/_agent/test_document.py"
LETTERS = "core/_rules/test_dead_letters.py::test_what_fails_is_moved_to_the_dead_letters_of_its_queue"

DEAD_LETTERS_LINES: Final = {
    "Failed VMs are automatically moved to appropriate DLQ": [LETTERS],
    "DLQ entries contain complete failure context (error, timestamp, retry count)": [
        LETTERS,
        f"{AGENT}::test_dead_letters_are_queryable_via_the_api_with_their_whole_context",
    ],
    "DLQ entries expire after configurable TTL": [
        f"{PURGE}::test_dead_and_cancelled_have_their_own_age",
        f"{AGENT}::test_dead_letters_expire_and_their_number_is_limited",
    ],
    "DLQ size is limited to prevent unbounded growth": [
        f"{PURGE}::test_too_many_dead_letters",
        f"{AGENT}::test_dead_letters_expire_and_their_number_is_limited",
    ],
    "DLQ entries are queryable via Redis CLI or API": [
        LETTERS,
        f"{AGENT}::test_dead_letters_are_queryable_via_the_api_with_their_whole_context",
    ],
}
PURGE_LINES: Final = {
    "Stale pending VMs are detected and moved to DLQ": [
        f"{PURGE}::test_stale_pending_is_detected_and_moved_to_the_dead_letters"
    ],
    "Stale ready VMs are detected and moved to completed queue": [
        f"{PURGE}::test_stale_ready_is_detected_and_moved_to_the_ended"
    ],
    "Stale completed VMs are removed from queue": [f"{PURGE}::test_stale_completed_is_removed"],
    "Orphaned VM metadata is detected and expired": [f"{PURGE}::test_orphaned_records_are_detected_and_removed"],
    "Purge metrics are logged (count, age, reason)": [
        f"{PURGE}::test_purge_metrics_count_age_and_reason",
        f"{AGENT}::test_purge_metrics_are_logged_with_count_age_and_reason",
    ],
    "Dry-run mode available for testing": [
        f"{PURGE}::test_dry_run_mode_writes_nothing",
        f"{AGENT}::test_dry_run_mode_available_for_testing",
    ],
    "Purge runs on configurable interval": [f"{AGENT}::test_purge_runs_on_configurable_interval"],
}
HEALTH_LINES: Final = {
    "Queue sizes are monitored per pool": [f"{HEALTH}::test_queue_sizes_are_monitored_per_queue"],
    "Queue ages are calculated (oldest, average)": [f"{HEALTH}::test_queue_ages_are_calculated"],
    "Stuck VMs are detected (age > threshold)": [f"{HEALTH}::test_stuck_jobs_are_detected"],
    "DLQ size is monitored": [f"{HEALTH}::test_dead_letters_are_monitored"],
    "Processing rates are calculated": [
        f"{HEALTH}::test_processing_rates_are_calculated_from_two_looks_and_else_unknown"
    ],
    "Overall health status is determined": [
        f"{HEALTH}::test_overall_status_is_determined_and_is_that_of_status",
        "console/cli/test_health.py::test_exit_codes_are_the_verdict",
    ],
    "Health metrics are exposed via Redis, metrics, and logs": [
        f"{AGENT}::test_health_metrics_are_exposed_via_redis_metrics_and_logs"
    ],
    "Health check runs on configurable interval": [f"{AGENT}::test_health_check_runs_on_configurable_interval"],
}
# What the document asks for besides: its configuration, its integration tests, its endpoints and its metrics.
OTHER_LINES: Final = {
    "dlq_enabled: false, purge_enabled: false, health_check_enabled: false": [
        "core/_settings/test_settings.py::test_the_defaults_are_those_of_the_document_and_everything_is_off",
        f"{AGENT}::test_everything_is_opt_in_via_configuration",
    ],
    "purge should respect DLQ entries": [
        f"{PURGE}::test_what_one_rule_buries_is_no_prey_of_the_next_in_the_same_pass",
        f"{AGENT}::test_purge_respects_dead_letters",
    ],
    "Healthy: DLQ size < 100; Degraded: DLQ size < 1000; Unhealthy: DLQ size > 1000": [
        f"{HEALTH}::test_dead_letters_are_monitored"
    ],
    "GET /api/v1/queue/health": ["core/_agent/test_http.py::test_health_is_the_report_of_the_command"],
    "GET /api/v1/queue/dlq?queue=&limit=": [
        f"{AGENT}::test_dead_letters_are_queryable_via_the_api_with_their_whole_context"
    ],
    "POST /api/v1/queue/purge?dry_run=true": [
        "core/_agent/test_http.py::test_a_dry_run_tells_what_a_purge_would_do_and_writes_nothing"
    ],
    "Metrics: vmpooler.dlq.*, vmpooler.purge.*, vmpooler.health.*": [
        "core/_agent/test_metrics.py::test_every_metric_of_the_document_is_there"
    ],
}
EVERY_LINE: Final = DEAD_LETTERS_LINES | PURGE_LINES | HEALTH_LINES | OTHER_LINES


@cache
def _docstrings(file: str) -> dict[str, str]:
    tree = ast.parse((TESTS / file).read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node.name: " ".join((ast.get_docstring(node) or "").split()) for node in functions}


def test_no_line_is_left_out() -> None:
    assert (len(DEAD_LETTERS_LINES), len(PURGE_LINES), len(HEALTH_LINES)) == (5, 7, 8)
    assert all(EVERY_LINE.values())


@pytest.mark.parametrize(("line", "named"), EVERY_LINE.items(), ids=list(EVERY_LINE))
def test_each_line_has_tests_that_name_it(line: str, named: list[str]) -> None:
    for test in named:
        file, _, name = test.partition("::")
        assert line in _docstrings(file)[name], f"{test} says which line it shows"
