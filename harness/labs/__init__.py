"""Labs: a folder with the runs that teams submit, their metadata and scores, and the journal that says what counts."""
