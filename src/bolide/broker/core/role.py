"""Role of a broker: master, slave or acting master. The only place that decides which work it may do.

RocketMQ checks `brokerRole` and `brokerId` in many places. Here services check a `Role`, routes declare the response of
a slave (`remoting/request_routes.py`), and the append path rejects records while `may_write` is False.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from bolide.broker.options.composed import BrokerOptions
from bolide.layout.names import MASTER_ID

ASYNC_MASTER: Final = "ASYNC_MASTER"
SYNC_MASTER: Final = "SYNC_MASTER"
SLAVE: Final = "SLAVE"
NO_ID: Final = -1
"""Broker id before the controller has assigned one."""


@final
class Role:
    """Role of a broker. Each change calls the callbacks in `told`."""

    def __init__(
        self,
        name: str = ASYNC_MASTER,
        broker_id: int = MASTER_ID,
        slave_reads: bool = False,
        fenced: bool = False,
        may_act: bool = False,
        may_escape: bool = False,
        held: bool = False,
    ) -> None:
        """`slave_reads`: slaveReadEnable; `may_act`: enableSlaveActingMaster; `may_escape`: enableRemoteEscape. With
        `held`, no message is delivered before `come_online`."""
        self._slave_reads: bool = slave_reads
        self.may_act: bool = may_act
        self.may_escape: bool = may_act and may_escape
        self._held: bool = held
        self.told: list[Callable[[Role, int], None]] = []
        self.short: bool = False
        """Whether a master rejects sends, because fewer replicas are in sync than minInSyncReplicas."""
        self._take(name, broker_id, fenced)

    @staticmethod
    def of(options: BrokerOptions) -> Role:
        """Return the role in the settings. In controller mode, a broker waits for its controller."""
        if options.controlled.enable_controller_mode:
            return Role(SLAVE, NO_ID, options.pull.slave_read_enable, True)
        may_act = options.acting.enable_slave_acting_master
        may_escape = options.acting.enable_remote_escape
        # The master must not deliver messages that a slave of the set has sent to other sets in its absence.
        held = may_act and may_escape and options.acting.total_replicas > 1 and not options.acting.skip_pre_online
        reads = options.pull.slave_read_enable
        return Role(options.place.broker_role, options.place.broker_id, reads, False, may_act, may_escape, held)

    def become(self, name: str, broker_id: int, now: int, fenced: bool = False) -> None:
        """Change the role. Services stop or resume their background work. `fenced`: serve no clients until the next
        change."""
        self._take(name, broker_id, fenced)
        for told in self.told:
            told(self, now)

    def _take(self, name: str, broker_id: int, fenced: bool) -> None:
        master = name != SLAVE
        self.short = False
        self.name: str = name
        self.broker_id: int = MASTER_ID if master else broker_id
        """Broker id for registration: 0 on a master."""
        self.may_write: bool = master
        """Whether records are created here: sends, retries, ends of transactions, and records of the broker itself."""
        self.may_serve: bool = not fenced and (master or self._slave_reads)
        """Whether consumers may pull here."""
        self.masterless: bool = False
        """Whether this is a slave of a set without a master. It then does not redirect consumers to the master."""
        self.acting: bool = False
        """Whether this is the slave with the smallest id of such a set. Name servers show it as the master."""
        self._work()

    def _work(self) -> None:
        """Update which background work this broker does, and the destination of its messages."""
        self.sends_away: bool = self.acting and self.may_escape
        """Whether due delayed messages, timers and half messages are sent to other sets (`broker/core/away.py`)."""
        self.may_check: bool = self.may_write and not self._held
        """Whether this broker ends transactions and checks pending ones."""
        self.may_deliver: bool = self.may_check or self.sends_away
        """Whether this broker delivers delayed messages and timers."""

    def come_online(self) -> bool:
        """Start the background work that was waiting until the set had been queried. Return False if none was waiting,
        or if this broker is not the master."""
        if not self._held:
            return False
        self._held = False
        self._work()
        return self.may_write

    def least_is(self, least_id: int) -> bool:
        """Process the smallest id of the set, as returned by name servers. Return whether the role changed."""
        masterless = self.may_act and not self.may_write and least_id != MASTER_ID
        acting = masterless and least_id == self.broker_id
        if (masterless, acting) == (self.masterless, self.acting):
            return False
        self.masterless = masterless
        self.acting = acting
        self._work()
        return True
