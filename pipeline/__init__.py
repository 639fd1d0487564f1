"""Large-graph training with polynomial graph filters: lake → graph → basis → training → report."""

__version__ = "0.1.0"
