"""Tasks, runs made for them, evaluations, sweeps."""
