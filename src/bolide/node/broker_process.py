"""A broker as a process: settings from flags and a file, the log, and signals until it stops."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from bolide.broker.options.composed import BrokerOptions
from bolide.node.broker import BrokerNode
from bolide.node.process.daemon import Told, run_daemon, told_to_nobody
from bolide.node.process.exit_codes import BAD_CONFIG
from bolide.node.settings.daemon_settings import daemon_settings
from bolide.world.home import expanded

log = logging.getLogger("bolide.node")


def run_broker(
    flags: Mapping[str, object] | None = None,
    conf: str | None = None,
    follow_stdin: bool = False,
    tell: Told = told_to_nobody,
) -> int:
    """Run a broker as this process until it is stopped. Return the exit status (node/process/exit_codes.py).

    `flags`: settings by Java key, which take precedence over the file `conf`. `follow_stdin`: stop when standard input
    ends. `tell`: called with the reason if the broker cannot start or had to stop.
    """
    found = daemon_settings(BrokerOptions, (flags, conf), kept_settings, lambda options: options.process, log, tell)
    if found is None:
        return BAD_CONFIG
    loaded, kept = found
    name = loaded.options.place.broker_name
    if not loaded.options.registration.namesrv_addr:
        log.warning("no name server is set, so clients cannot find this broker: give -n HOST:PORT or namesrvAddr")
    return run_daemon(lambda: BrokerNode(loaded.options, conf=kept), f"broker {name}", follow_stdin, tell)


def kept_settings(options: BrokerOptions) -> str:
    """Return the file that stores settings changed at run time, for a broker that was started without a file."""
    return str(expanded(options.place.store_path_root_dir) / "config" / "broker.conf")
