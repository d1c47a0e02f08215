"""MathML to trees."""
