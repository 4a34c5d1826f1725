"""The flow of the naming page from end to end: ingestion → embedding → callback → cleanup, in four processes."""
