"""MathAMR+: posts as graphs of sentences and formulas, a relational encoder over them, search by its vectors.

`posts`, `amr`, `dependency` and `build` make graphs; `vocabulary`, `virtual` and `pack` make them numbers;
`convolution`, `model`, `loss` and `training` learn; `data` and `system` put all that together as a run producer.
Source: Yoon, "MathAMR+" (M.S. thesis, RIT, 2026), chapter 3.
"""
