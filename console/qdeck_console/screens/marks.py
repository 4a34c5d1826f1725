"""Lists of jobs: marks, the actions on marked jobs, and their counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from qdeck.admin import JobRecord
from qdeck_console.actions import ActionHandler
from qdeck_console.format import counted
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.go_back import CANCEL, CLEAR_FILTER, CLEAR_MARKS, back
from qdeck_console.screens.job_actions import JOB_HANDLERS, JobActing, why_no_job
from qdeck_console.screens.lists import OUT_OF_SIGHT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck_console.format import Line, Piece


class MarkingScreen(JobActing):
    """A list whose jobs can be marked and acted on."""

    LANGUAGE: ClassVar[bool] = True

    def has_jobs(self) -> bool:
        """Return whether there is something to mark."""
        raise NotImplementedError

    def count_line(self, words: str) -> Line:
        """Return the line below the list: how much there is, how many rows are below, and how many are marked."""
        more = f", {self.view.below:,} more ↓" if self.view.below else ""
        return (("    ", "text"), (words + more, "muted"), *self.marks_words())

    def job_of(self, row: object) -> JobRecord | None:
        """Return the job that a row shows."""
        return row if isinstance(row, JobRecord) else None

    def pointed(self) -> object | None:
        """Return the row under the cursor."""
        return self.view.row

    def targets(self) -> tuple[JobRecord, ...]:
        """Return the marked jobs, else the one under the cursor."""
        rows = list(self.view.marks.values()) or ([] if self.view.is_out_of_sight else [self.view.row])
        return tuple(job for row in rows if (job := self.job_of(row)) is not None)

    def why_no_jobs(self) -> str:
        """Return why there are no targets: a job that is out of sight is none."""
        return OUT_OF_SIGHT if self.view.is_out_of_sight else why_no_job(self.pointed())

    def acted(self) -> None:
        """Clear the marks after an action."""
        if self.is_mounted:
            self.view.clear_marks()

    def tell_dropped(self, count: int) -> None:
        """Report marks that were cleared because their jobs left the list."""
        if count:
            self.console.say(f"{counted(count, 'marked job')} left the list", "warn", "▲")

    def marks_words(self) -> list[Piece]:
        """Return how many are marked, for the total."""
        return self.marked_words()

    def marked_words(self) -> list[Piece]:
        """Return how many jobs are marked, in words."""
        view = self.view
        everything = self.everything()
        if everything is not None:
            count = "" if everything[1] is None else f" {everything[1]:,}"
            return [("  ◆ ", "accent bold"), (f"all{count} that match", "accent")]
        if not view.marks:
            return []
        words, ends = f"{len(view.marks):,} marked", view.ranged
        if ends is not None:
            whole = ends[3] - ends[1] + 1
            words += f" of {whole:,}, v marks the rest" if view.range_lacks else ", v ends the range"
        return [("  ◆ ", "accent bold"), (words, "accent")]

    def clear_marks(self) -> None:
        """Clear all marks."""
        self.view.clear_marks()
        self.draw(fresh=False)

    def mark(self) -> None:
        """Mark the job under the cursor."""
        self.view.toggle_mark()
        self.draw(fresh=False)

    def mark_range(self) -> None:
        """Begin or end a range of marks."""
        self.toggle_range()

    def toggle_range(self) -> None:
        """Begin a range of marks, or end it with what is marked."""
        self.view.toggle_range()
        self.draw(fresh=False)

    def mark_all(self) -> None:
        """Mark all that match, not only what is shown."""
        self.view.toggle_all()
        self.draw(fresh=False)

    def why_not_mark(self) -> str:
        """Return why the job under the cursor cannot be marked."""
        return self.why_no_row()

    def why_no_row(self) -> str:
        """Return that no job is under the cursor, if so."""
        return "" if self.view.row is not None else "no job under the cursor"

    def _why_not_mark_all(self) -> str:
        return "" if self.has_jobs() else "no jobs to mark"

    def open(self) -> None:
        """Open what is under the cursor."""
        self.open_job()

    def open_job(self) -> None:
        """Open the job under the cursor."""
        job = self.job_of(self.view.row)
        if job is not None:
            self.console.open_job(job.ref, job.id)

    HANDLERS: ClassVar[Mapping[str, ActionHandler[Any]]] = {
        **FrameScreen.HANDLERS,
        **JOB_HANDLERS,
        "open": ActionHandler(run=open),
        "mark": ActionHandler(run=mark, reason=why_not_mark),
        "range": ActionHandler(run=lambda screen: screen.mark_range(), reason=why_not_mark),
        "all": ActionHandler(run=mark_all, reason=_why_not_mark_all),
        "back": back(CANCEL, CLEAR_MARKS, CLEAR_FILTER),
    }
