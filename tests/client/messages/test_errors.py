"""What a program may do about an error, and what a producer does."""

from __future__ import annotations

import pickle

from bolide.client import ResponseError, TopicNotFound
from bolide.client.messages.errors import response_error, worth_retry
from bolide.remoting import codes


def test_topic_not_found_is_not_retriable_and_a_producer_tries_another_broker() -> None:
    error = response_error(codes.TOPIC_NOT_EXIST, "no", "a send", "b:1")
    assert isinstance(error, TopicNotFound)
    assert (error.retriable, error.refresh_route, worth_retry(error)) == (False, True, True)
    assert not pickle.loads(pickle.dumps(error)).retriable
    busy = response_error(codes.SYSTEM_BUSY, "busy", "a send", "b:1")
    assert (type(busy), busy.retriable, worth_retry(busy)) == (ResponseError, True, True)
    assert not worth_retry(response_error(codes.MESSAGE_ILLEGAL, "no", "a send", "b:1"))
