"""The agent: maintains queues, also those without a worker, and reports their health."""
