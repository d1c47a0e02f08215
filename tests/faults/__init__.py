"""Commands that are disturbed: killed, without disk or memory, with another clock, beside another machine."""
