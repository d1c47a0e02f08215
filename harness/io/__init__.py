"""Bytes on disk, lines for a person, configurations by name and the checks of their keys."""
