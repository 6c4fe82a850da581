"""The error of all readers."""


class Unreadable(ValueError):
    """The bytes do not have the expected format."""
