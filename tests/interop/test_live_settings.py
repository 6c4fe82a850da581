"""`mqadmin updateBrokerConfig` against a running Bolide broker."""

from pathlib import Path

import pytest

from proof.interop.java_artefacts import BROKER_VERSION
from proof.interop.java_processes import MqAdmin
from proof.interop.matrix import PROGRAM
from proof.kit.our_processes import OurBroker, OurNameServer

pytestmark = [
    pytest.mark.java,
    pytest.mark.matrix(feature="mqadmin", version=BROKER_VERSION, direction=PROGRAM),
]


def test_mqadmin_changes_a_setting(namesrv: OurNameServer, broker: OurBroker, tmp_path: Path) -> None:
    admin = MqAdmin(tmp_path, namesrv.address)
    try:
        words = ("updateBrokerConfig", "-b", broker.address, "-k")
        assert "success" in admin.run(*words, "fileReservedTime", "-v", "48")
        shown = admin.run("getBrokerConfig", "-b", broker.address)
        lines = [line for line in shown.splitlines() if line.startswith("fileReservedTime")]
        assert [line.split("=")[1].strip() for line in lines] == ["48"]
        with pytest.raises(AssertionError, match="flushDiskType cannot be changed .* restart"):
            admin.run(*words, "flushDiskType", "-v", "SYNC_FLUSH")
    finally:
        admin.close()
