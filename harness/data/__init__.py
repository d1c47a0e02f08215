"""Runs, judgments and topics, and the text formats they stand in."""
