"""Benchmarks against peers: each script prints one table."""
