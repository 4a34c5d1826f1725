"""The native queue: its keys, its scripts and its operations as values. Nothing here talks to a server."""
