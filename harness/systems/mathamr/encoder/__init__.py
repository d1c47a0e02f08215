"""Graphs to vectors."""
