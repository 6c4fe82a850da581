"""Credentials from environment variables, for clients without explicit credentials. Process lists do not show them,
unlike the options of a command."""

from __future__ import annotations

import os
from typing import Final

from bolide.errors import ConfigError

ACCESS_KEY: Final = "BOLIDE_ACCESS_KEY"
SECRET_KEY: Final = "BOLIDE_SECRET_KEY"


def environment_credentials() -> tuple[str, str]:
    """Return the access key and secret key of the variables, or two empty strings.

    Raises `ConfigError` if only one is set; the error does not quote it.
    """
    access_key, secret_key = os.environ.get(ACCESS_KEY, ""), os.environ.get(SECRET_KEY, "")
    if bool(access_key) != bool(secret_key):
        raise ConfigError(f"the variables {ACCESS_KEY} and {SECRET_KEY} go together: set both or neither")
    return access_key, secret_key
