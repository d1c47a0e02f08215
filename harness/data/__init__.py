"""Runs, judgments and topics, and their text formats."""
