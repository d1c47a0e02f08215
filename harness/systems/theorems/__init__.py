"""Theorems of Mathlib."""
