"""A Java name server and broker that our client meets."""

from __future__ import annotations

from pathlib import Path

from proof.interop.java_artefacts import BROKER_VERSION, CLIENT_VERSIONS, OLD_BROKER_VERSION
from proof.interop.java_processes import JavaBroker, JavaClient, JavaNameServer, MqAdmin
from proof.kit.ports import reserve_port
from proof.kit.small import QUICK_CHECKS

SETTINGS = {
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "recallMessageEnable": "true",
    **QUICK_CHECKS,
    "flushDiskType": "ASYNC_FLUSH",
}


class JavaCluster:
    """A running name server and broker of one version."""

    def __init__(self, home: Path, version: str) -> None:
        self.version = version
        self.home = home
        self.java_home = home / "client"
        for folder in ("namesrv", "broker", "admin", "client"):
            (home / folder).mkdir()
        self.metrics = reserve_port()
        """Port of the metrics, which only 5.5.0 serves."""
        self.server = JavaNameServer(home / "namesrv", version)
        self.namesrv = self.server.address
        try:
            exporter = {"metricsExporterType": "PROM", "metricsPromExporterPort": str(self.metrics)}
            settings = SETTINGS if self.is_old else {**SETTINGS, **exporter}
            self.broker = JavaBroker(home / "broker", self.namesrv, settings, version=version)
        except BaseException:
            self.server.kill()
            raise
        self._admin: MqAdmin | None = None
        self._java: JavaClient | None = None

    @property
    def is_old(self) -> bool:
        """Whether it is 4.9."""
        return self.version == OLD_BROKER_VERSION

    @property
    def line(self) -> str:
        """The version in characters that names may have."""
        return self.version.replace(".", "")

    @property
    def mqadmin(self) -> MqAdmin:
        """RocketMQ's own tool, at this cluster."""
        if self._admin is None:
            self._admin = MqAdmin(self.home / "admin", self.namesrv)
        return self._admin

    @property
    def java(self) -> JavaClient:
        """RocketMQ's own client of that line, at this cluster."""
        if self._java is None:
            self._java = JavaClient(self.java_home, self.namesrv, CLIENT_VERSIONS[0] if self.is_old else BROKER_VERSION)
        return self._java

    def stop(self) -> None:
        """End the processes at once."""
        for driver in (self._admin, self._java):
            if driver is not None:
                driver.close()
        for server in (self.broker, self.server):
            server.kill()  # nobody reads the store: a good end of 5.5.0 takes half a minute
