"""The settings of one broker, as its node uses and shows them."""

from __future__ import annotations

from bolide.broker.core.options import BrokerOptions
from bolide.declaration import values_in
from bolide.errors import ConfigError
from bolide.node.settings.config import shown
from bolide.world.home import expanded


def listen_setting(options: BrokerOptions) -> str:
    """The setting that an operator changes when the port cannot be had."""
    return f"listenPort = {options.place.listen_port}"


def conf_of(options: BrokerOptions) -> dict[str, str]:
    """All options as the text a broker.conf would hold: what GET_BROKER_CONFIG answers and plug-ins get."""
    return {key: shown(key, value) for key, value in values_in(options).items()}


def check_log_folder(options: BrokerOptions) -> None:
    """Raise `ConfigError` when storePathCommitLog names another folder than the one that is used."""
    used = expanded(options.place.store_path_root_dir) / "commitlog"
    wanted = options.place.store_path_commit_log
    if wanted and expanded(wanted).resolve() != used.resolve():
        raise ConfigError(
            f"storePathCommitLog = {wanted} is not supported: the log is in commitlog/ under storePathRootDir, which "
            f"is {used.resolve()}; leave it out"
        )
