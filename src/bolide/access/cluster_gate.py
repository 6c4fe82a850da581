"""Checks each request to a name server or controller if `clusterAuthenticationEnabled` is set.

RocketMQ's name server and controller check nothing (docs/protocol/acl.md 1), but its 5.x brokers, its clients and
`mqadmin` sign their requests to them if they have credentials. Reads need no signature by default, because
clients without credentials look up routes.
"""

from __future__ import annotations

from typing import Any, Final

from bolide.access.cluster_options import GuardedDaemonOptions
from bolide.access.gate import Gate, Rules
from bolide.access.policies import Acls
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.request_routes import NO_CODES, Kind, RequestTable

HELP: Final = (
    "clusterAuthenticationEnabled: sign {name} with innerClientAuthenticationCredentials at a broker, or with the "
    "access key and secret key of a tool; brokers of RocketMQ 4 cannot sign"
)


class ClusterGate:
    """Accepts or rejects requests by their signature and kind."""

    def __init__(self, options: GuardedDaemonOptions, table: RequestTable[Any, Any]) -> None:
        unsigned = NO_CODES if options.cluster_authentication_reads else table.of_kind(Kind.READ)
        rules = Rules(authorization=False, strict=False, unsigned_codes=unsigned, free_codes=NO_CODES, cluster="")
        self._gate = Gate(options.cluster_users, Acls(), table.rows, rules)

    def refused(self, remote: str, command: Command) -> Command | None:
        """Return the response that rejects a request of the peer `address:port`, or None if it is accepted."""
        why = self._gate.refusal(remote, command)
        if why is None:
            return None
        return make_response(command, self._gate.denial, f"{why} {HELP.format(name=codes.request_name(command.code))}")


def cluster_gate(options: GuardedDaemonOptions, table: RequestTable[Any, Any]) -> ClusterGate | None:
    """Return the gate that the settings require, or None without `clusterAuthenticationEnabled`."""
    return ClusterGate(options, table) if options.cluster_authentication_enabled else None
