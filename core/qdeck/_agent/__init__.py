"""The agent: looks after queues whether or not anybody works on them, and tells how they are."""
