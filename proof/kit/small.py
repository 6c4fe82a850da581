"""Settings of brokers under test: small files, and patience."""

SMALL_LOG = {"mappedFileSizeCommitLog": str(64 << 20)}
"""Ours takes the room of a log file when it makes it: 1 GiB as shipped, which dozens of brokers would not find."""
