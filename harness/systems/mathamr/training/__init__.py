"""Training of the encoder; resumes exactly after an interruption."""
