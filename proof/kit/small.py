"""Settings of brokers under test: small files, and patience."""

SMALL_LOG = {"mappedFileSizeCommitLog": str(64 << 20)}
"""Bolide reserves the disk blocks of a log file when it creates it: 1 GiB with the default."""
PATIENT = {"waitTimeMillsInSendQueue": "60000", "osPageCacheBusyTimeOutMills": "60000"}
"""The broker rejects no send because a busy machine stalled."""
