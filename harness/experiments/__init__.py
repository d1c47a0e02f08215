"""Tasks, their runs, evaluations, experiments and sweeps."""
