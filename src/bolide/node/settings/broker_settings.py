"""The settings of one broker, as its node uses and shows them."""

from __future__ import annotations

from bolide.broker.options.composed import BrokerOptions
from bolide.declaration import values_in
from bolide.errors import ConfigError
from bolide.node.settings.config import shown
from bolide.world.home import expanded


def listen_setting(options: BrokerOptions) -> str:
    """Return the setting that an operator changes if the port cannot be bound."""
    return f"listenPort = {options.place.listen_port}"


def conf_of(options: BrokerOptions) -> dict[str, str]:
    """Return all options as they would be written in a broker.conf, for GET_BROKER_CONFIG and plug-ins."""
    return {key: shown(key, value) for key, value in values_in(options).items()}


def check_log_folder(options: BrokerOptions) -> None:
    """Raise `ConfigError` if storePathCommitLog names a folder other than the one in use."""
    used = expanded(options.place.store_path_root_dir) / "commitlog"
    wanted = options.place.store_path_commit_log
    if wanted and expanded(wanted).resolve() != used.resolve():
        raise ConfigError(
            f"storePathCommitLog = {wanted} is not supported: the log is in commitlog/ under storePathRootDir, which "
            f"is {used.resolve()}; leave it out"
        )
