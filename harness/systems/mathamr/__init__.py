"""MathAMR+: posts as graphs of sentences and formulas, a relational encoder over them, search by its vectors.

`graphs` makes graphs of posts, `encoder` vectors of graphs, `training` trains the encoder. `system` puts these together
as a run producer; `linearised` gives the same graphs to an encoder of text.
Source: Yoon, "MathAMR+" (M.S. thesis, RIT, 2026), chapter 3.
"""
