"""Files, console output, named configurations, and validation of their keys."""
