"""An example of a package that adds to mathir-harness; its README tells how."""
