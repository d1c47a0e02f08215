"""MathAMR+: turns posts into graphs of sentences and formulas, encodes the graphs as vectors, and searches the vectors.

`graphs` builds graphs of posts, `encoder` encodes graphs as vectors, and `training` trains the encoder. `system`
combines these into a run producer; `linearised` feeds the same graphs to a text encoder.
Source: Yoon, "MathAMR+" (M.S. thesis, RIT, 2026), chapter 3.
"""
