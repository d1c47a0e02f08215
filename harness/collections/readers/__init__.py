"""Readers of topics, judgments and documents, one module for each source."""
