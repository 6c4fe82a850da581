"""The options of a broker: sections of this package, `access`, `store` and `layout`, and rules that span several.

A key of RocketMQ that no section declares has no effect or prevents startup (`node/settings/`).
"""

from __future__ import annotations

from typing import Any, Self

from msgspec import Struct, field

from bolide.access.options import AccessOptions
from bolide.broker.options.acting import ActingOptions
from bolide.broker.options.connections import BrokerConnectionOptions
from bolide.broker.options.consumers import ConsumerOptions
from bolide.broker.options.controlled import ControlledOptions
from bolide.broker.options.delay import DelayOptions
from bolide.broker.options.light_queues import LightQueueOptions
from bolide.broker.options.operator import OperatorOptions
from bolide.broker.options.place import PlaceOptions
from bolide.broker.options.plugins import PluginOptions
from bolide.broker.options.process import ProcessOptions
from bolide.broker.options.pull import FilterOptions, PullOptions
from bolide.broker.options.registration import RegistrationOptions
from bolide.broker.options.replication import ReplicationOptions
from bolide.broker.options.send import SendOptions
from bolide.broker.options.tables import TableOptions
from bolide.broker.options.tls import BrokerTlsOptions
from bolide.broker.options.transactions import TransactionOptions
from bolide.declaration import with_values
from bolide.errors import ConfigError
from bolide.layout.names import MASTER_ID
from bolide.layout.shape import ShapeOptions, StoreShape
from bolide.remoting.listening import LOOPBACK
from bolide.store.options import ScrubOptions, StoreOptions


class BrokerOptions(Struct, frozen=True, kw_only=True):
    """All settings of a broker. `BrokerOptions.of` accepts them without their sections.

    Raises `ConfigError` for settings that are incompatible.
    """

    place: PlaceOptions = field(default_factory=PlaceOptions)
    process: ProcessOptions = field(default_factory=ProcessOptions)
    registration: RegistrationOptions = field(default_factory=RegistrationOptions)
    tables: TableOptions = field(default_factory=TableOptions)
    send: SendOptions = field(default_factory=SendOptions)
    delay: DelayOptions = field(default_factory=DelayOptions)
    pull: PullOptions = field(default_factory=PullOptions)
    filters: FilterOptions = field(default_factory=FilterOptions)
    consumers: ConsumerOptions = field(default_factory=ConsumerOptions)
    light_queues: LightQueueOptions = field(default_factory=LightQueueOptions)
    transactions: TransactionOptions = field(default_factory=TransactionOptions)
    operator: OperatorOptions = field(default_factory=OperatorOptions)
    connections: BrokerConnectionOptions = field(default_factory=BrokerConnectionOptions)
    tls: BrokerTlsOptions = field(default_factory=BrokerTlsOptions)
    plugins: PluginOptions = field(default_factory=PluginOptions)
    replication: ReplicationOptions = field(default_factory=ReplicationOptions)
    acting: ActingOptions = field(default_factory=ActingOptions)
    controlled: ControlledOptions = field(default_factory=ControlledOptions)
    access: AccessOptions = field(default_factory=AccessOptions)
    store: StoreOptions = field(default_factory=StoreOptions)
    scrub: ScrubOptions = field(default_factory=ScrubOptions)
    shape: ShapeOptions = field(default_factory=ShapeOptions)

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """Return options with these settings by field name, from any section. Other settings have their defaults.

        Raises `ConfigError` for an invalid value, `TypeError` for an unknown name.
        """
        return with_values(cls(), settings)

    def __post_init__(self) -> None:
        # Settings that are valid individually may be incompatible.
        StoreShape.of(self.shape)
        self._check_acting()
        if self.replication.ha_tls_enable:
            self._check_ha_tls()
        if self.controlled.enable_controller_mode:
            self._check_controlled()
        else:
            self._check_plain()

    def _check_plain(self) -> None:
        controlled, place, machines = self.controlled, self.place, self.replication.in_sync_replicas
        alone = "needs enableControllerMode = true: without a controller there is no set of replicas in sync"
        if controlled.all_ack_in_sync_state_set:
            raise ConfigError(f"allAckInSyncStateSet = true {alone}")
        if controlled.min_in_sync_replicas > 1 and not self.acting.enable_auto_in_sync_replicas:
            raise ConfigError(
                f"minInSyncReplicas = {controlled.min_in_sync_replicas} needs enableControllerMode = true or "
                "enableAutoInSyncReplicas = true: without them a send waits for inSyncReplicas only"
            )
        if place.broker_role == "SLAVE" and place.broker_id == MASTER_ID:
            raise ConfigError("brokerRole = SLAVE needs a brokerId above 0: 0 is its master")
        if self.waits_for_slaves and place.broker_role == "ASYNC_MASTER":
            key = "inSyncReplicas" if machines > 1 else "minInSyncReplicas"
            waits = f"{key} = {max(machines, controlled.min_in_sync_replicas)}"
            raise ConfigError(f"{waits} needs brokerRole = SYNC_MASTER: an ASYNC_MASTER does not wait for its slaves")

    def _check_acting(self) -> None:
        acting = self.acting
        if acting.enable_auto_in_sync_replicas and not acting.enable_slave_acting_master:
            raise ConfigError(
                "enableAutoInSyncReplicas = true needs enableSlaveActingMaster = true, because only then are live "
                "replicas counted"
            )
        if acting.enable_remote_escape and not acting.enable_slave_acting_master:
            raise ConfigError(
                "enableRemoteEscape = true needs enableSlaveActingMaster = true: else no slave delivers for its master"
            )
        if not acting.enable_slave_acting_master:
            return
        if self.controlled.enable_controller_mode:
            raise ConfigError(
                "enableSlaveActingMaster = true is not allowed with enableControllerMode = true: the controller elects "
                "a master; leave one of them out"
            )
        if not self.registration.namesrv_addr:
            raise ConfigError(
                "enableSlaveActingMaster = true needs namesrvAddr: name servers return the members of the set"
            )

    def _check_ha_tls(self) -> None:
        tls = self.tls
        wanted = {
            "tlsCertPath": self.may_lead and not tls.tls_cert_path,
            "tlsKeyPath": self.may_lead and not tls.tls_key_path,
            "tlsTrustCertPath": self.may_lead and not tls.tls_trust_cert_path,
            "tlsClientCertPath": self.may_follow and not tls.tls_client_cert_path,
            "tlsClientKeyPath": self.may_follow and not tls.tls_client_key_path,
            "tlsClientTrustCertPath": self.may_follow and not tls.tls_client_trust_cert_path,
        }
        missing = [key for key, lacks in wanted.items() if lacks]
        if missing:
            raise ConfigError(f"haTlsEnable = true needs {', '.join(missing)}: both sides show and check certificates")

    def _check_controlled(self) -> None:
        if not self.controlled.controller_addr.strip():
            raise ConfigError("enableControllerMode = true needs controllerAddr: write host:port;host:port")
        if self.replication.ha_master_address:
            raise ConfigError(
                f"haMasterAddress = {self.replication.ha_master_address} is not allowed with enableControllerMode = "
                "true: the controller elects the master; remove it"
            )
        if not self.registration.namesrv_addr:
            raise ConfigError("enableControllerMode = true needs namesrvAddr: replicas find their master's log by it")

    @property
    def set_name(self) -> str:
        """Name by which the brokers of a set recognize each other at the port of the log."""
        return f"{self.place.broker_cluster_name}#{self.place.broker_name}"

    @property
    def is_slave(self) -> bool:
        """Whether `brokerRole` is SLAVE. Under a controller the setting has no effect."""
        return self.place.broker_role == "SLAVE"

    @property
    def serves_log(self) -> bool:
        """Whether slaves may connect. Disabled by default, because every client that reaches the port receives the
        whole log."""
        if self.controlled.enable_controller_mode or self.place.broker_role == "SYNC_MASTER":
            return True
        return not self.is_slave and self.replication.ha_listen_port > 0

    @property
    def may_lead(self) -> bool:
        """Whether this broker may have slaves."""
        return self.controlled.enable_controller_mode or not self.is_slave

    @property
    def may_follow(self) -> bool:
        """Whether this broker may replicate from a master."""
        return self.controlled.enable_controller_mode or self.is_slave

    @property
    def waits_for_slaves(self) -> bool:
        """Whether the response to a send may wait for other brokers."""
        machines = max(self.replication.in_sync_replicas, self.controlled.min_in_sync_replicas)
        return machines > 1 or self.controlled.all_ack_in_sync_state_set

    @property
    def send_patience(self) -> int:
        """Maximum time that a send waits for disk and slaves, ms. In default HA mode its record is dispatched after
        slaveTimeout, so only the disk can make it wait longer. In controller mode it is not dispatched before every
        in-sync replica has it."""
        if not self.waits_for_slaves:
            return self.store.sync_flush_timeout
        if self.controlled.enable_controller_mode:
            return self.replication.slave_timeout
        return max(self.store.sync_flush_timeout, self.replication.slave_timeout)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about these settings for the log at startup."""
        found = []
        place, shape, acting = self.place, self.shape, self.acting
        if shape.enable_lmq != shape.enable_multi_dispatch:
            alone = "enableLmq" if shape.enable_lmq else "enableMultiDispatch"
            text = f"{alone} alone lets no message enter a light queue: set enableLmq and enableMultiDispatch together"
            found.append(text)
        if self.controlled.enable_controller_mode:
            if place.broker_role != "ASYNC_MASTER" or place.broker_id != MASTER_ID:
                found.append("brokerRole and brokerId have no effect: the controller elects the master")
        elif not self.is_slave and place.broker_id != MASTER_ID:
            text = f"a broker with brokerRole = {place.broker_role} is a master"
            found.append(f"brokerId = {place.broker_id} is treated as 0: {text}")
        if place.fast_port_enable == "false" and self.use_of_fast_port:
            found.append(f"fastPortEnable = false: {self.use_of_fast_port}")
        reachable = place.bind_address not in LOOPBACK
        guarded = self.access.authentication_enabled or self.access.acl_enable
        if not guarded and reachable:
            text = f"any client that reaches {place.bind_address} may do anything, see docs/security.md"
            found.append(f"authenticationEnabled = false: {text}")
        if acting.enable_slave_acting_master and self.is_slave and not self.pull.slave_read_enable:
            found.append("slaveReadEnable = false: as acting master this broker would serve no pulls")
        proven = self.access.cluster_authentication_enabled or self.replication.ha_tls_enable
        if self.serves_log and not proven and reachable:
            text = "any client that reaches haListenPort gets the whole log and counts as a slave, see docs/security.md"
            found.append(f"clusterAuthenticationEnabled = false: {text}")
        return tuple(found)

    @property
    def use_of_fast_port(self) -> str:
        """Reason why RocketMQ's brokers of this set need the fast port, or "" if they do not."""
        text = "slaves of RocketMQ ask for topics and the timer's state at listenPort - 2, and would replicate neither"
        if self.serves_log:
            return text
        acts = self.acting.enable_slave_acting_master and self.is_slave
        text = "a master of RocketMQ that comes back asks for timers at listenPort - 2, or never registers again"
        return text if acts else ""
