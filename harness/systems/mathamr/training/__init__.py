"""Training that resumes exactly."""
