"""A Bolide broker for a measurement: `bolide standalone` as a separate process, on free ports."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bolide.errors import LocalError
from bolide.interpreter import python

_STOP_SECONDS: Final = 30.0


class BrokerProcess:
    """A broker that runs from its construction to `stop`. Clients connect to the address `namesrv`."""

    def __init__(self, store: Path, settings: Mapping[str, str]) -> None:
        command = python("-m", "bolide.cli", "standalone", "--store", str(store))
        command += ["--namesrv-port", "0", "--broker-port", "0"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        found = re.search(r"namesrv[ =](\S+:\d+)", ready)
        if found is None:
            self.stop()
            raise LocalError(f"the broker for the measurement did not start: {ready.strip() or 'it printed nothing'}")
        self.namesrv = found[1]

    def stop(self) -> None:
        """Stop the broker, and wait until its store is closed."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
