"""From snapshots to lines of text: what each screen says, without Textual, so that it can be tested as values."""
