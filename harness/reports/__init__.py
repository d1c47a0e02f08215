"""Content of reports, section by section."""
