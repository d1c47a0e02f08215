"""Collections made from data."""
