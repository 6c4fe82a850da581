"""How a broker finds the controller that leads."""

from __future__ import annotations

import pytest

from bolide.node.replication.controllers import Controllers, NoController
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.headers.controller import GetMetaDataResponseHeader
from bolide.world.real import RealWorld


class Heard(Controllers):
    """Controllers that answer in this process; `named` says whom each takes for the leader, `leader` who it is."""

    def __init__(self, named: dict[str, str], leader: str) -> None:
        super().__init__(tuple(named), RealWorld(), None, None)
        self._named = named
        self._true_leader = leader

    async def _asked(self, address: str, code: int, ext: dict[str, str], body: bytes) -> Command:
        request = make_request(code, 1, ext, body)
        if address not in self._named:
            raise NoController(f"{address} cannot be reached")
        if code == codes.CONTROLLER_GET_METADATA_INFO:
            told = GetMetaDataResponseHeader(controller_leader_address=self._named[address])
            return make_response(request, codes.SUCCESS, ext=told.to_ext())
        return make_response(request, codes.SUCCESS if address == self._true_leader else codes.CONTROLLER_NOT_LEADER)


@pytest.mark.parametrize("stale", ["n9", "n0"])
async def test_a_controller_that_is_cut_off_does_not_keep_a_broker_from_the_leader(stale: str) -> None:
    """It names a leader that is gone, or itself."""
    controllers = Heard({"n0": stale, "n1": "n2", "n2": "n2"}, "n2")
    with pytest.raises(NoController):
        await controllers.ask(codes.CONTROLLER_GET_REPLICA_INFO, {})
    assert (await controllers.ask(codes.CONTROLLER_GET_REPLICA_INFO, {})).code == codes.SUCCESS
    await controllers.find()
    assert (await controllers.ask(codes.CONTROLLER_GET_REPLICA_INFO, {})).code == codes.SUCCESS
