"""MathAMR+: sections of its experiments."""
