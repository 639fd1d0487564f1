"""Parquet tables in, and the synthetic generator."""
