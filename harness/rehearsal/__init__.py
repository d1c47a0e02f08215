"""Rehearsal: the complete recipe of each published row, run on stand-ins for the resources that it needs."""
