"""Functions from snapshots to lines of text for each screen, without Textual, so that tests compare values."""
