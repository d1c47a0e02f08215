theorem of_a_dependency : True := trivial
