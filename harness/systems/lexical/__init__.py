"""Lexical retrieval: text views, BM25 and TF-IDF, Lucene by Anserini, PISA."""
