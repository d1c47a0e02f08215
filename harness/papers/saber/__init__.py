"""A re-ranking collection from problems with solutions, without annotators, as SABER-Math was built."""
