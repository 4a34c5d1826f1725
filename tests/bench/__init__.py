"""Benchmarks: what the queue reaches, as a share of what this machine allows. Start with `make bench`."""
