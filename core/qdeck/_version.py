"""The version of qdeck; connections name it to the server."""

__version__ = "0.1.0"
