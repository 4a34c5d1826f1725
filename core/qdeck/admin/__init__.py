"""The operator's door to qdeck: `Reader` and `Writer`, blocking and asyncio, and the values that they return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._lazy_imports import attach

if TYPE_CHECKING:
    from qdeck._adapter_names import ADAPTERS, is_adapter
    from qdeck._engine.batch_transitions import MAX_UNDO_BYTES
    from qdeck._engine.codec import UNKNOWN_TASK
    from qdeck._engine.transitions import NewJob
    from qdeck._filter import FIELDS, PRIORITIES, PRIORITY_NAMES, STATES, FieldKind, Filter, explain, parse
    from qdeck._formatting import byte_size, counted, duration, iso, local_time, threshold
    from qdeck._hidden_characters import HIDDEN, escaped_json, is_shown, json_escape
    from qdeck._model.answers import Answer, answers
    from qdeck._model.masking import configure as configure_masking
    from qdeck._model.masking import mask_text
    from qdeck._model.payload import MASK
    from qdeck._model.payload import decode as decode_payload
    from qdeck._model.payload import mask as mask_payload
    from qdeck._model.payload import read as read_payload
    from qdeck._model.payload import whole_text as shown
    from qdeck._model.queue_ref import Feature, QueueRef, has_feature
    from qdeck._model.ranking import finding_rank
    from qdeck._model.reasons import Caution, CautionCode, Skip, SkipCode, Stop, StopCode, Stuck, StuckCode
    from qdeck._model.values import (
        Check,
        Finding,
        HistoryEvent,
        JobDetail,
        JobFailure,
        JobLocation,
        JobRecord,
        Page,
        Pause,
        QueueRow,
        QueueSettings,
        ServerInfo,
        Snapshot,
        Totals,
        WorkerRow,
    )
    from qdeck._model.verdict import findings_of
    from qdeck._model.words import NATIVE, Cause, Code, State, Status, Verb
    from qdeck._operations.activity import make as new_activity
    from qdeck._operations.applying import Tally
    from qdeck._operations.batches import Batch
    from qdeck._operations.model import Activity, BatchResult, Outcomes, UndoResult
    from qdeck._operations.new_jobs import new_job
    from qdeck._operations.outcomes import BatchOutcomes, JobOutcome
    from qdeck._operations.planfile import Plan, PlanWriter, load_plan, own_plan
    from qdeck._operations.planindex import PlanIndex, Share, Shares
    from qdeck._operations.redrive import ENOUGH, TOO_MANY
    from qdeck._operations.schedule_changes import ScheduleChange
    from qdeck._operations.undoing import NothingToUndo
    from qdeck._private_files import Dropped, check_new_file, new_file, state_dir
    from qdeck._queue_names import QueueType
    from qdeck._redis import mask_url
    from qdeck._redis.commands import Program
    from qdeck._redis.reads import LOCAL_CLOCK, concerns_all, unread_words
    from qdeck._rules.doctor import Diagnosis, DoctorCheck
    from qdeck._rules.health import HealthReport
    from qdeck._rules.health_document import document as health_document
    from qdeck._schedules.cron_rule import CronRule
    from qdeck._schedules.model import MISSED, Definition, ScheduleRow
    from qdeck._server.agent_tasks import AgentTask
    from qdeck._server.history import Sample
    from qdeck._server.queue_settings import MOST_REASON, actor
    from qdeck._server.server_stats import ServerStats, SlowCommand
    from qdeck._server.workers import served_only_by
    from qdeck._settings import Configuration, ContextSettings, Settings, Target, Thresholds
    from qdeck._settings import load as load_configuration
    from qdeck._settings import read_file as read_configuration
    from qdeck._settings.limits import Limits, read_rules
    from qdeck._settings.model import UsedRule
    from qdeck._settings.purge_rules import PURGE_RULES, KnownRule, PurgeRule, Takes
    from qdeck._settings.save import Value as SettingValue
    from qdeck._settings.save import save as save_settings
    from qdeck._settings.trusted_files import add as trust_file
    from qdeck._settings.trusted_files import path_of as trusted_path
    from qdeck._settings.trusted_files import remove as distrust_file
    from qdeck.adapters import make as make_adapter
    from qdeck.adapters.entry_detail import detail_of
    from qdeck.adapters.groups import PART_MS, CountedGroup, Gathering, Group, Groups
    from qdeck.adapters.model import Entry, Seen
    from qdeck.adapters.native import VERBS as NATIVE_VERBS
    from qdeck.adapters.native import newest_first
    from qdeck.adapters.native.dead_limits import Headroom
    from qdeck.adapters.native.editing import Draft, difference, new_body
    from qdeck.adapters.native.groups import GroupWalk
    from qdeck.adapters.native.purge import purge_verb
    from qdeck.adapters.native.queue_details import CloseUp, Spread
    from qdeck.adapters.native.records import MOST_SHOWN
    from qdeck.adapters.native.walk import Needs, Walk
    from qdeck.adapters.plans import PlanEntry, StuckJob
    from qdeck.adapters.search import IdSearch
    from qdeck.admin._reader import AsyncReader, Reader
    from qdeck.admin._writer import AsyncWriter, Writer

__all__ = [
    "ADAPTERS",
    "ENOUGH",
    "FIELDS",
    "HIDDEN",
    "LOCAL_CLOCK",
    "MASK",
    "MAX_UNDO_BYTES",
    "MISSED",
    "MOST_REASON",
    "MOST_SHOWN",
    "NATIVE",
    "NATIVE_VERBS",
    "PART_MS",
    "PRIORITIES",
    "PRIORITY_NAMES",
    "PURGE_RULES",
    "STATES",
    "TOO_MANY",
    "UNKNOWN_TASK",
    "Activity",
    "AgentTask",
    "Answer",
    "AsyncReader",
    "AsyncWriter",
    "Batch",
    "BatchOutcomes",
    "BatchResult",
    "Cause",
    "Caution",
    "CautionCode",
    "Check",
    "CloseUp",
    "Code",
    "Configuration",
    "ContextSettings",
    "CountedGroup",
    "CronRule",
    "Definition",
    "Diagnosis",
    "DoctorCheck",
    "Draft",
    "Dropped",
    "Entry",
    "Feature",
    "FieldKind",
    "Filter",
    "Finding",
    "Gathering",
    "Group",
    "GroupWalk",
    "Groups",
    "Headroom",
    "HealthReport",
    "HistoryEvent",
    "IdSearch",
    "JobDetail",
    "JobFailure",
    "JobLocation",
    "JobOutcome",
    "JobRecord",
    "KnownRule",
    "Limits",
    "Needs",
    "NewJob",
    "NothingToUndo",
    "Outcomes",
    "Page",
    "Pause",
    "Plan",
    "PlanEntry",
    "PlanIndex",
    "PlanWriter",
    "Program",
    "PurgeRule",
    "QueueRef",
    "QueueRow",
    "QueueSettings",
    "QueueType",
    "Reader",
    "Sample",
    "ScheduleChange",
    "ScheduleRow",
    "Seen",
    "ServerInfo",
    "ServerStats",
    "SettingValue",
    "Settings",
    "Share",
    "Shares",
    "Skip",
    "SkipCode",
    "SlowCommand",
    "Snapshot",
    "Spread",
    "State",
    "Status",
    "Stop",
    "StopCode",
    "Stuck",
    "StuckCode",
    "StuckJob",
    "Takes",
    "Tally",
    "Target",
    "Thresholds",
    "Totals",
    "UndoResult",
    "UsedRule",
    "Verb",
    "Walk",
    "WorkerRow",
    "Writer",
    "actor",
    "answers",
    "byte_size",
    "check_new_file",
    "concerns_all",
    "configure_masking",
    "counted",
    "decode_payload",
    "detail_of",
    "difference",
    "distrust_file",
    "duration",
    "escaped_json",
    "explain",
    "finding_rank",
    "findings_of",
    "has_feature",
    "health_document",
    "is_adapter",
    "is_shown",
    "iso",
    "json_escape",
    "load_configuration",
    "load_plan",
    "local_time",
    "make_adapter",
    "mask_payload",
    "mask_text",
    "mask_url",
    "new_activity",
    "new_body",
    "new_file",
    "new_job",
    "newest_first",
    "own_plan",
    "parse",
    "purge_verb",
    "read_configuration",
    "read_payload",
    "read_rules",
    "save_settings",
    "served_only_by",
    "shown",
    "state_dir",
    "threshold",
    "trust_file",
    "trusted_path",
    "unread_words",
]

_HOMES: Final = {
    "qdeck._redis": "mask_url",
    "qdeck._server.agent_tasks": "AgentTask",
    "qdeck._server.queue_settings": "MOST_REASON actor",
    "qdeck._server.workers": "served_only_by",
    "qdeck._model.queue_ref": "Feature QueueRef has_feature",
    "qdeck._server.history": "Sample",
    "qdeck.adapters.native": "NATIVE_VERBS=VERBS newest_first",
    "qdeck._model.masking": "configure_masking=configure mask_text",
    "qdeck._model.values": (
        "Check JobFailure Finding JobLocation HistoryEvent JobDetail JobRecord Page Pause QueueRow QueueSettings "
        "ServerInfo Snapshot Totals WorkerRow"
    ),
    "qdeck._model.payload": "MASK decode_payload=decode mask_payload=mask read_payload=read shown=whole_text",
    "qdeck._operations.new_jobs": "new_job",
    "qdeck._redis.reads": "LOCAL_CLOCK concerns_all unread_words",
    "qdeck._model.reasons": "Caution CautionCode Skip SkipCode Stop StopCode Stuck StuckCode",
    "qdeck.adapters.native.records": "MOST_SHOWN",
    "qdeck._model.answers": "Answer answers",
    "qdeck._model.ranking": "finding_rank",
    "qdeck._model.verdict": "findings_of",
    "qdeck._server.server_stats": "ServerStats SlowCommand",
    "qdeck._model.words": "Cause Code NATIVE State Status Verb",
    "qdeck._engine.batch_transitions": "MAX_UNDO_BYTES",
    "qdeck._engine.codec": "UNKNOWN_TASK",
    "qdeck._engine.transitions": "NewJob",
    "qdeck._redis.commands": "Program",
    "qdeck._private_files": "Dropped check_new_file new_file state_dir",
    "qdeck._filter": "FIELDS STATES FieldKind Filter PRIORITIES PRIORITY_NAMES explain parse",
    "qdeck._hidden_characters": "HIDDEN escaped_json is_shown json_escape",
    "qdeck._adapter_names": "ADAPTERS is_adapter",
    "qdeck.adapters": "make_adapter=make",
    "qdeck.adapters.entry_detail": "detail_of",
    "qdeck.adapters.model": "Entry Seen",
    "qdeck._queue_names": "QueueType",
    "qdeck._operations.activity": "new_activity=make",
    "qdeck._operations.applying": "Tally",
    "qdeck.adapters.native.queue_details": "CloseUp Spread",
    "qdeck.adapters.plans": "PlanEntry StuckJob",
    "qdeck.adapters.groups": "CountedGroup Gathering Group Groups PART_MS",
    "qdeck.adapters.native.groups": "GroupWalk",
    "qdeck.adapters.native.dead_limits": "Headroom",
    "qdeck._operations.model": "Activity BatchResult Outcomes UndoResult",
    "qdeck._operations.planfile": "Plan PlanWriter load_plan own_plan",
    "qdeck._operations.planindex": "PlanIndex Share Shares",
    "qdeck.adapters.native.editing": "Draft difference new_body",
    "qdeck._operations.outcomes": "BatchOutcomes JobOutcome",
    "qdeck._operations.redrive": "ENOUGH TOO_MANY",
    "qdeck._operations.schedule_changes": "ScheduleChange",
    "qdeck._operations.undoing": "NothingToUndo",
    "qdeck._operations.batches": "Batch",
    "qdeck.adapters.native.purge": "purge_verb",
    "qdeck.adapters.native.walk": "Needs Walk",
    "qdeck._rules.doctor": "Diagnosis DoctorCheck",
    "qdeck._rules.health": "HealthReport",
    "qdeck._settings.limits": "Limits read_rules",
    "qdeck._rules.health_document": "health_document=document",
    "qdeck._schedules.model": "Definition MISSED ScheduleRow",
    "qdeck._schedules.cron_rule": "CronRule",
    "qdeck._settings": (
        "Configuration ContextSettings Settings Target Thresholds load_configuration=load read_configuration=read_file"
    ),
    "qdeck._settings.model": "UsedRule",
    "qdeck._settings.purge_rules": "KnownRule PURGE_RULES PurgeRule Takes",
    "qdeck._settings.save": "SettingValue=Value save_settings=save",
    "qdeck._settings.trusted_files": "distrust_file=remove trust_file=add trusted_path=path_of",
    "qdeck.adapters.search": "IdSearch",
    "qdeck._formatting": "byte_size counted duration iso local_time threshold",
    "qdeck.admin._reader": "AsyncReader Reader",
    "qdeck.admin._writer": "AsyncWriter Writer",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _HOMES)
