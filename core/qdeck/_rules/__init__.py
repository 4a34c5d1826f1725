"""Rules: what a purge takes, and how healthy a deck is."""
