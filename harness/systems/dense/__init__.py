"""Dense retrieval: sentence encoders, and search by single vectors or by many (MaxSim)."""
