"""Labs: a folder with teams' submitted runs, their metadata and scores, and the journal of all submissions."""
