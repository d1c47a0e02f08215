"""Measures, protocols, scores and comparisons: plain values in and out."""
