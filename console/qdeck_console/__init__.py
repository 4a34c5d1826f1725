"""The command line and the terminal console of qdeck; every rule about queues is in `qdeck`."""
