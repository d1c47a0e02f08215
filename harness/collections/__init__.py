"""Collections and corpora, loaded by name."""
