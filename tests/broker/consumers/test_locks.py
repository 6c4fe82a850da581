"""Queue locks: taken, refreshed, refused, expired, given back."""

from __future__ import annotations

from bolide.broker.consumers.locks import LOCK_EXPIRY_MS, LockService, QueueLocks
from bolide.broker.core.outcome import Reply
from bolide.broker.options.composed import BrokerOptions
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue, decode_body, encode_body
from bolide.remoting.bodies.locks import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from bolide.remoting.command import Command, make_request
from tests.broker.parts import CHANNEL

A = MessageQueue("T", "b", 0)
B = MessageQueue("T", "b", 1)
NOW = 1_700_000_000_000


def test_a_lock_belongs_to_one_client_of_a_group() -> None:
    locks = QueueLocks()
    assert locks.lock("g", "one", [A, B], 0) == [A, B]
    assert locks.lock("g", "two", [A, B], 1) == []
    assert locks.lock("other", "two", [A], 1) == [A]


def test_a_refresh_moves_the_expiry() -> None:
    locks = QueueLocks()
    locks.lock("g", "one", [A], 0)
    locks.lock("g", "one", [A], LOCK_EXPIRY_MS)
    assert locks.lock("g", "two", [A], LOCK_EXPIRY_MS + 1) == []
    assert locks.lock("g", "two", [A], 2 * LOCK_EXPIRY_MS + 1) == [A]


def test_a_lock_is_held_up_to_its_expiry_and_free_behind_it() -> None:
    locks = QueueLocks()
    locks.lock("g", "one", [A], 0)
    assert locks.lock("g", "two", [A], LOCK_EXPIRY_MS) == []
    assert locks.any_locked("g", LOCK_EXPIRY_MS)
    assert not locks.any_locked("g", LOCK_EXPIRY_MS + 1)
    assert locks.lock("g", "two", [A], LOCK_EXPIRY_MS + 1) == [A]


def test_a_queue_that_is_asked_for_twice_is_granted_once() -> None:
    assert QueueLocks().lock("g", "one", [A, B, A], 0) == [A, B]


def test_only_the_owner_unlocks() -> None:
    locks = QueueLocks()
    locks.lock("g", "one", [A, B], 0)
    locks.unlock("g", "two", [A, B])
    assert locks.lock("g", "two", [A], 1) == []
    locks.unlock("g", "one", [A])
    assert locks.lock("g", "two", [A, B], 1) == [A]


def test_expired_locks_are_forgotten() -> None:
    locks = QueueLocks()
    locks.lock("g", "one", [A], 0)
    locks.lock("h", "one", [A], LOCK_EXPIRY_MS)
    locks.drop_expired(LOCK_EXPIRY_MS + 1)
    assert locks.lock("g", "two", [A], LOCK_EXPIRY_MS + 1) == [A]
    assert locks.lock("h", "two", [A], LOCK_EXPIRY_MS + 1) == []


def ask(service: LockService, code: int, body: object, now: int) -> Command:
    outcome = service.handlers()[code](CHANNEL, make_request(code, 7, {}, encode_body(body)), now)
    assert isinstance(outcome, Reply)
    assert isinstance(outcome.response, Command)
    assert outcome.response.code == codes.SUCCESS
    return outcome.response


def test_the_requests_answer_success_and_only_what_was_granted() -> None:
    service = LockService(QueueLocks())
    ask(service, codes.LOCK_BATCH_MQ, LockBatchRequestBody("g", "one", [A]), 0)
    answer = ask(service, codes.LOCK_BATCH_MQ, LockBatchRequestBody("g", "two", [A, B]), 0)
    assert decode_body(answer.body, LockBatchResponseBody).lock_ok_mq_set == [B]
    assert ask(service, codes.UNLOCK_BATCH_MQ, UnlockBatchRequestBody("g", "one", [A]), 0).body == b""
    answer = ask(service, codes.LOCK_BATCH_MQ, LockBatchRequestBody("g", "two", [A, B]), 0)
    assert decode_body(answer.body, LockBatchResponseBody).lock_ok_mq_set == [A, B]


def test_total_of_locks_is_limited() -> None:
    locks = QueueLocks(most=3)
    queues = [MessageQueue("T", "b", number) for number in range(5)]
    assert locks.lock("g", "c", queues, NOW) == queues[:3]
    assert locks.lock("h", "c", queues, NOW) == []
    assert locks.lock("g", "c", queues[:2], NOW + 1) == queues[:2]  # a lock that is held is refreshed
    locks.unlock("g", "c", queues[:1])
    assert locks.lock("h", "d", queues, NOW) == queues[:1]
    locks.drop_expired(NOW + 2 * LOCK_EXPIRY_MS)
    assert locks.lock("h", "d", queues, NOW + 2 * LOCK_EXPIRY_MS) == queues[:3]
    locks.configure(BrokerOptions.of(max_queue_locks=4))
    assert locks.lock("g", "c", queues, NOW + 2 * LOCK_EXPIRY_MS) == queues[:1]


def test_a_lock_of_a_name_nobody_has_is_not_granted() -> None:
    locks, queue, long = QueueLocks(), MessageQueue("T", "b", 0), "x" * 2000
    assert locks.lock(long, "c", [queue], NOW) == locks.lock("g", long, [queue], NOW) == []
    assert locks.lock("g", "c", [MessageQueue(long, "b", 0), MessageQueue("T", long, 0), queue], NOW) == [queue]
