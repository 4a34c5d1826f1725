"""Servers, a fault proxy, processes and other helpers of the tests."""
