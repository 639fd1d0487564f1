"""Polynomial families: parameters to coefficients on T_k(P)."""
