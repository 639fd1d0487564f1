"""T_k(P) X: kernels, plan, BasisStore."""
