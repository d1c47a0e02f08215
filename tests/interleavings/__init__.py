"""Processes of two machines on one store, killed and paused at random moments: see `__main__`."""
