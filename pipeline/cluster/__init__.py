"""Everything that imports Ray."""

import os
import secrets
import sys


def _authenticate_private_ray() -> None:
    """Give a Ray that this process starts a token of its own.

    Left alone, Ray would write one to ~/.ray/auth_token, and that would switch authentication on
    for a later `ray start --head`, whose `ray job submit` then fails. Ray reads this when imported.
    """
    if "ray" in sys.modules or "RAY_ADDRESS" in os.environ or "RAY_AUTH_MODE" in os.environ:
        return
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


_authenticate_private_ray()
