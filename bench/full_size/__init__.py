"""Time, memory and disk of each path on generated inputs, up to the size of the real collections."""
