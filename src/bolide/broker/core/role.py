"""Whether this broker is the master of its name or follows one: the one place that answers what it may do.

RocketMQ asks `brokerRole` and `brokerId` in many places. Here services ask a `Role`, request
codes say in their row what a slave answers (`remoting/request_routes.py`), and the door to the log takes nothing while
`may_write` is False.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from bolide.broker.core.options import BrokerOptions
from bolide.layout.names import MASTER_ID

ASYNC_MASTER: Final = "ASYNC_MASTER"
SYNC_MASTER: Final = "SYNC_MASTER"
SLAVE: Final = "SLAVE"
NO_ID: Final = -1
"""The number of a broker to which its controller has given none."""


@final
class Role:
    """The role of one broker. It changes by `become` only, which tells everybody in `told`."""

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
        """`slave_reads` is slaveReadEnable, `may_act` enableSlaveActingMaster, `may_escape` enableRemoteEscape. One
        that is `held` delivers nothing before `come_online`."""
        self._slave_reads: bool = slave_reads
        self.may_act: bool = may_act
        self.may_escape: bool = may_act and may_escape
        self._held: bool = held
        self.told: list[Callable[[Role, int], None]] = []
        self.short: bool = False
        """A master takes no sends, because fewer replicas are in sync than minInSyncReplicas."""
        self._take(name, broker_id, fenced)

    @staticmethod
    def of(options: BrokerOptions) -> Role:
        """The role that the settings give. Under a controller a broker waits for its word."""
        if options.controlled.enable_controller_mode:
            return Role(SLAVE, NO_ID, options.pull.slave_read_enable, True)
        may_act = options.acting.enable_slave_acting_master
        may_escape = options.acting.enable_remote_escape
        # What a slave of the set sent elsewhere meanwhile is not to be delivered before the master has heard of it.
        held = may_act and may_escape and options.acting.total_replicas > 1 and not options.acting.skip_pre_online
        reads = options.pull.slave_read_enable
        return Role(options.place.broker_role, options.place.broker_id, reads, False, may_act, may_escape, held)

    def become(self, name: str, broker_id: int, now: int, fenced: bool = False) -> None:
        """Take another role: who does background work stops it or resumes it. `fenced`: serve nobody until the next."""
        self._take(name, broker_id, fenced)
        for told in self.told:
            told(self, now)

    def _take(self, name: str, broker_id: int, fenced: bool) -> None:
        master = name != SLAVE
        self.short = False
        self.name: str = name
        self.broker_id: int = MASTER_ID if master else broker_id
        """The number under which the broker registers: 0 of a master."""
        self.may_write: bool = master
        """Records are made here: sends, retries, ends of transactions, and all that the broker stores by itself."""
        self.may_serve: bool = not fenced and (master or self._slave_reads)
        """Consumers may pull here."""
        self.masterless: bool = False
        """A slave of a set without a master: its readers stay."""
        self.acting: bool = False
        """The slave with the smallest id of such a set: name servers show it as the master."""
        self._work()

    def _work(self) -> None:
        """Who does the background work of the set, and where its messages go."""
        self.sends_away: bool = self.acting and self.may_escape
        """The messages of delays and timers, and half messages, go to other sets (`broker/core/away.py`)."""
        self.may_check: bool = self.may_write and not self._held
        """Ends of transactions and checks of those without one are written here."""
        self.may_deliver: bool = self.may_check or self.sends_away
        """Delays and timers are this broker's work."""

    def come_online(self) -> bool:
        """The set was asked what it did without this broker: its work may begin. False when none waited for that."""
        if not self._held:
            return False
        self._held = False
        self._work()
        return self.may_write

    def least_is(self, least_id: int) -> bool:
        """The smallest id of the set is this one, as name servers tell; False when that is nothing new."""
        masterless = self.may_act and not self.may_write and least_id != MASTER_ID
        acting = masterless and least_id == self.broker_id
        if (masterless, acting) == (self.masterless, self.acting):
            return False
        self.masterless = masterless
        self.acting = acting
        self._work()
        return True
