"""Half messages of a set without a master: its acting slave sends them to other sets, which check them.

RocketMQ's TransactionalMessageServiceImpl.check with enableRemoteEscape: each round sends every pending half message
like a producer, whatever its age. The receiving broker then checks it with its producer. Java skips a message that
failed four times. Here such a message blocks progress until it has arrived.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.core.away import Journeys
from bolide.broker.core.effects import Effects
from bolide.broker.core.role import Role
from bolide.broker.core.service import Service
from bolide.broker.cursor.cold_loads import ColdLoads
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.transactions.half_messages import HalfMessages
from bolide.broker.transactions.half_records import real_place
from bolide.broker.transactions.renewals import Half
from bolide.layout.message_properties import stored_properties
from bolide.layout.names import HALF_TOPIC
from bolide.layout.record import copy_of
from bolide.store.errors import RecordDamaged
from bolide.store.message_store import MessageStore

LOOK_INTERVAL_MS: Final = 1_000


class HalvesAway(Service):
    """Sends the half messages of an acting slave to other sets. `halves`: the half messages in its log."""

    def __init__(
        self,
        options: BrokerOptions,
        role: Role,
        store: MessageStore,
        halves: HalfMessages,
        effects: Effects,
    ) -> None:
        self._options = options
        self._role = role
        self._store = store
        self._halves = halves
        self._loads = ColdLoads(store, effects, lambda now: effects.wake(self))
        self._away = Journeys(effects, self, halves.leave)
        self._next_round = 0
        self._round: list[int] = []
        """Offsets of half messages to send in this round, oldest last."""

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._options = options

    def role_changed(self, role: Role, now: int) -> None:
        """Start a round after a while, because the master may return soon."""
        self._away.forget()
        self._round = []
        self._next_round = now + self._options.transactions.transaction_check_interval

    def due(self, now: int) -> int | None:
        """Return the time of the next tick (ms), or None while there is a master or no message may be sent away."""
        if not self._role.sends_away or self._loads.active:
            return None
        if self._round and not self._away.full:
            return now
        at = self._next_round if not self._away.count else now + LOOK_INTERVAL_MS
        return self._away.next_at(min(at, now + LOOK_INTERVAL_MS))

    def tick(self, now: int, budget: int) -> None:
        """Send the rest of the round. Start a new round when it is due and the last one has ended."""
        if not self._role.sends_away or self._loads.active:
            return
        self._away.go_on(now)
        complete = self._halves.scan(budget)
        if complete and now >= self._next_round and not self._round and not self._away.count:
            self._next_round = now + self._options.transactions.transaction_check_interval
            self._round = list(reversed(self._halves.pending))
        while self._round and not self._away.full:
            half = self._halves.pending.get(self._round[-1])
            if half is not None and not self._sent(half):
                break
            self._round.pop()
        self._halves.progress(now)

    def _sent(self, half: Half) -> bool:
        """Send one half message. Return False while its record is loaded. One without a valid target waits for the
        master, which abandons it."""
        if self._loads.lacks(half.physical_offset, half.size):
            return False
        try:
            record = self._store.intact_record(half.physical_offset, half.size)
        except RecordDamaged as error:  # a copy would get a CRC that matches the damaged body
            self._store.maintenance.problem = f"a half message is not sent to another broker set: {error}"
            return True
        if record is not None and real_place(properties := stored_properties(record.properties)) is not None:
            self._away.begin(copy_of(record, HALF_TOPIC, 0, properties), half.queue_offset)
        return True
