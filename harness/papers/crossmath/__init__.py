"""CrossMath: the check of its translated topics, the re-run of its archive, its sections."""
