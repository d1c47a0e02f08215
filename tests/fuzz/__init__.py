"""Damaged files, and what the harness makes of them: `python -m tests.fuzz --cases 2000 --seed 1`."""
