"""The loop, protocols and metrics, in plain torch."""
