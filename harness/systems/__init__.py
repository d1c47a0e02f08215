"""Run producers, one folder a family."""
