"""Posts as graphs."""
