"""Writers of collections in the forms of other programs: BEIR, TREC, mteb; one module a form."""
