"""Drop-in facades for callers that have code already: `qdeck.compat.ifdb` and `qdeck.compat.scheduler`."""
