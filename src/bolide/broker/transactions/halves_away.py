"""Half messages of a set without a master: its acting slave hands them over to other sets, which check them.

RocketMQ's TransactionalMessageServiceImpl.check with enableRemoteEscape: in each round every undecided half message is
sent as a producer sends one, whatever its age. Its producer is then asked by the broker that has it. Where Java passes
over one that failed four times, here it stays in the way of progress until it has arrived.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.core.away import Journeys
from bolide.broker.core.effects import Effects
from bolide.broker.core.options import BrokerOptions
from bolide.broker.core.role import Role
from bolide.broker.core.service import Service
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
    """Of a broker that acts as master. `halves` are those its log holds."""

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
        self._effects = effects
        self._away = Journeys(effects, self, halves.leave)
        self._next_round = 0
        self._round: list[int] = []
        """Offsets of half messages that this round is to send, the oldest last."""
        self._loading = False
        self._loaded_for = -1

    def configure(self, options: BrokerOptions) -> None:
        """Take over what may change while the broker runs."""
        self._options = options

    def role_changed(self, role: Role, now: int) -> None:
        """Begin a round after a while: the master may be back soon."""
        self._away.forget()
        self._round = []
        self._next_round = now + self._options.transactions.transaction_check_interval

    def due(self, now: int) -> int | None:
        """Never while there is a master, or nothing may be sent elsewhere."""
        if not self._role.sends_away or self._loading:
            return None
        if self._round and not self._away.full:
            return now
        at = self._next_round if not self._away.count else now + LOOK_INTERVAL_MS
        return self._away.next_at(min(at, now + LOOK_INTERVAL_MS))

    def tick(self, now: int, budget: int) -> None:
        """Send what the round has left; begin one when it is time and the last is over."""
        if not self._role.sends_away or self._loading:
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
        """Send one; False while its record is loaded. One for no place waits for the master, which gives it up."""
        if self._loaded_for != half.queue_offset:
            cold = self._store.cold_record(half.physical_offset, half.size)
            if cold is not None:
                self._loading = True
                self._loaded_for = half.queue_offset
                self._effects.load([cold], self._loaded)
                return False
        try:
            record = self._store.intact_record(half.physical_offset, half.size)
        except RecordDamaged as error:  # a copy would get a CRC that fits the damaged body
            self._store.maintenance.problem = f"a half message is not sent to another broker set: {error}"
            return True
        if record is None:
            return True
        properties = stored_properties(record.properties)
        if real_place(properties) is not None:
            self._away.begin(copy_of(record, HALF_TOPIC, 0, properties), half.queue_offset)
        return True

    def _loaded(self, now: int) -> None:
        self._loading = False
        self._effects.wake(self)
