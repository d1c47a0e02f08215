"""Builds graphs of posts."""
