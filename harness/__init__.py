"""A reproducible shared-task evaluation harness for mathematical information retrieval."""

__version__ = "0.1.0"
