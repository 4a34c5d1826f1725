"""What operators do to many jobs: plan, apply, undo, redrive, and the log of it."""
