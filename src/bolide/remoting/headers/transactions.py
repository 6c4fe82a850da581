"""Transactions: their end, their check by a broker, and the resumption of checks.

Fields and protocol names are from the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header, Int32, Int64


class EndTransactionRequestHeader(Header, rename="camel"):
    """Request 37 END_TRANSACTION."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    msg_id: str
    topic: str | None = None  # 5.x
    from_transaction_check: bool | None = None
    transaction_id: str | None = None


class CheckTransactionStateRequestHeader(Header, rename="camel"):
    """Request 39 CHECK_TRANSACTION_STATE."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    topic: str | None = None  # 5.x
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessageRequestHeader(Header, rename="camel"):
    """Request 323 RESUME_CHECK_HALF_MESSAGE."""

    topic: str | None = None  # 5.x
    msg_id: str | None = None
