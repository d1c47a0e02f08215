"""Retrieval systems, which produce runs; one folder for each family."""

EXAMPLE = "collection=mini-task1 corpus=mini-answers"  # what systems rank in examples, unless their family says other
