"""The report of a paper, section by section."""
