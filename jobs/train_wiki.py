#!/usr/bin/env python3
"""Train GSCNet and MLP on a Wiki-shaped graph: 5 classes, 600 features, 1.9M nodes at full size.

Without --edges and --nodes a lake of that shape is generated. All stages run on Ray: a cluster when
submitted to one (`ray job submit jobs/train_wiki.py`), a local Ray otherwise.
"""

import sys

import interpreter  # noqa: F401 - first: it finds the Python that has the rest

from pipeline.config import HeadConfig
from pipeline.job import JobDefaults, run_job

DEFAULTS = JobDefaults(
    like="wiki",
    scale=0.01,
    head=HeadConfig(model="gscnet", K1=2, K2=2, lr=0.01, filter_lr=0.05, dropout=0.2),
    epochs=100,
)

if __name__ == "__main__":
    sys.exit(run_job(DEFAULTS, __doc__ or ""))
