"""Test the service against a broker in the test process."""

import os
import subprocess
import sys
from pathlib import Path

from bolide.testing import Broker


def test_an_order_is_cooked(bolide_broker: Broker) -> None:
    service = Path(__file__).with_name("tutorial_orders.py")
    there = {**os.environ, "BOLIDE_NAMESRV_ADDR": bolide_broker.namesrv_addr}
    ended = subprocess.run([sys.executable, service], env=there, capture_output=True, text=True, timeout=60, check=True)
    assert "cooking: order-1 coffee" in ended.stdout
