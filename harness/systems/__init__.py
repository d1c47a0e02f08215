"""Retrieval systems, which produce runs; one folder for each family."""
