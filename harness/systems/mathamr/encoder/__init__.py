"""Encodes graphs as vectors."""
