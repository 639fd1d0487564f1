"""The errors a user can cause. Each message is a sentence that says what, where and what to do."""


class GscnetError(Exception):
    """Something the user can mend; the command line prints it and exits with code 2."""


class ConfigError(GscnetError, ValueError):
    """An option or a config field has a value that cannot be used."""


class LakeError(GscnetError):
    """A Parquet table is missing, unreadable or not of the expected shape."""


class StoreError(GscnetError):
    """An artifact is missing, unfinished, of another kind, or made from something else."""


class DamagedBlockError(StoreError):
    """A block's bytes are not the ones its manifest names."""


class ClusterError(GscnetError):
    """Ray could not carry the work out."""
