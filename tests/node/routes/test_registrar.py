"""A broker at real name servers: all of its topics at first, what changes at once, everything again after a loss."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from bolide.broker.core.effects import Effects
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.topic_config import TopicConfig
from bolide.broker.tables.topics import TopicTable
from bolide.node.routes.registrar import Place, Registration, body_of
from proof.kit.ports import reserve_port
from proof.kit.waiting import PATIENCE, until
from tests.node.name_servers import namesrv

PLACE = Place("127.0.0.1:10911", "127.0.0.1:10912")


async def test_every_name_server_learns_all_topics_then_each_change(tmp_path: Path) -> None:
    servers = [namesrv(tmp_path), namesrv(tmp_path)]
    for server in servers:
        await server.start()
    options = BrokerOptions.of(namesrv_addr=";".join(server.address for server in servers))
    topics = TopicTable(options, Effects(), 1)
    registration = Registration(options, PLACE, topics)
    registration.start()
    await registration.first(PATIENCE)
    assert all(server.knows_topic("TBW102") for server in servers)
    topics.put(TopicConfig("New"), 2)
    registration.changed({"New"})
    await until(lambda: all(server.knows_topic("New") for server in servers))
    await registration.stop()
    await until(lambda: not any(server.knows_topic("New") for server in servers))
    for server in servers:
        await server.stop()


async def test_topics_the_name_server_keeps_as_ordered_become_so_here(tmp_path: Path) -> None:
    orders = {"T": "broker-a:4", "unknown": "broker-a:4"}
    (tmp_path / "kv.json").write_text(json.dumps({"configTable": {"ORDER_TOPIC_CONFIG": orders}}))
    server = namesrv(tmp_path)
    await server.start()
    options = BrokerOptions.of(namesrv_addr=server.address)
    effects = Effects()
    topics = TopicTable(options, effects, 1)
    for name in ("T", "U"):
        topics.put(TopicConfig(name), 2)
    effects.take()
    version = topics.data_version.counter
    registration = Registration(options, PLACE, topics)
    registration.start()
    await registration.first(PATIENCE)
    assert [topics.is_order_topic(name) for name in ("T", "U", "unknown")] == [True, False, False]
    assert topics.data_version.counter == version + 1
    assert effects.take().persists == {"topics"}
    topics.mark_ordered(["T"], 3)
    assert effects.take().persists == set()
    await registration.stop()
    await server.stop()


async def test_a_name_server_that_comes_back_is_told_everything(tmp_path: Path) -> None:
    first = namesrv(tmp_path, reserve_port())  # one that nothing else takes while it is down
    await first.start()
    options = BrokerOptions.of(namesrv_addr=first.address)
    topics = TopicTable(options, Effects(), 1)
    registration = Registration(options, PLACE, topics)
    registration.start()
    await registration.first(PATIENCE)
    assert (registration.servers, registration.known_by) == (1, 1)
    await first.stop()
    await until(lambda: registration.known_by == 0)
    topics.put(TopicConfig("New"), 2)
    registration.changed({"New"})
    second = namesrv(tmp_path, first.port)
    await second.start()
    await until(lambda: second.knows_topic("New") and second.knows_topic("TBW102"))
    await until(lambda: registration.known_by == 1)
    await registration.stop()
    await second.stop()


async def test_a_broker_starts_without_its_name_server(tmp_path: Path) -> None:
    server = namesrv(tmp_path)
    await server.start()
    await server.stop()
    options = BrokerOptions.of(namesrv_addr=server.address)
    registration = Registration(options, PLACE, TopicTable(options, Effects(), 1))
    registration.start()
    await registration.first(0.05)
    await registration.stop()


def test_a_broker_that_may_not_be_written_says_so_in_its_topics() -> None:
    assert body_of(TopicConfig("T", perm=6), 4).perm == 4
    assert body_of(TopicConfig("T", perm=7), 6).perm == 7


async def test_a_slave_is_told_of_its_master_as_it_comes_and_goes(tmp_path: Path) -> None:
    servers = [namesrv(tmp_path), namesrv(tmp_path)]
    for server in servers:
        await server.start()
    addresses = [server.address for server in servers]
    seen: list[tuple[str, str]] = []

    def told(*master: str) -> None:
        if seen[-1:] != [master]:
            seen.append((master[0], master[1]))

    def registration(place: Place, names: str, **settings: Any) -> Registration:
        options = BrokerOptions.of(namesrv_addr=names, **settings)
        topics = TopicTable(options, Effects(), 1)
        return Registration(options, place, topics, told=told)

    slave = registration(
        Place("127.0.0.1:20911", "127.0.0.1:20912"), ";".join(addresses), broker_role="SLAVE", broker_id=1
    )
    slave.start()
    await slave.first(PATIENCE)
    assert seen == []
    master = registration(PLACE, addresses[1], broker_role="SYNC_MASTER", broker_id=3)
    master.start()
    await master.first(PATIENCE)
    slave.changed({""})
    await until(lambda: bool(seen))
    assert seen == [(PLACE.address, PLACE.ha_address)], "the master was not told of itself, and the slave once"
    await master.stop()
    slave.changed({""})
    await until(lambda: len(seen) > 1)
    assert seen[1] == ("", PLACE.ha_address)
    await slave.stop()
    for server in servers:
        await server.stop()


async def test_a_slave_is_told_of_its_master_at_each_registration(tmp_path: Path) -> None:
    """A 906 of any sender changes the address at which a slave follows: what name servers say corrects that."""
    server = namesrv(tmp_path)
    await server.start()
    seen: list[tuple[str, str]] = []

    def registration(place: Place, **settings: Any) -> Registration:
        options = BrokerOptions.of(namesrv_addr=server.address, register_name_server_period=60_000, **settings)
        topics = TopicTable(options, Effects(), 1)
        return Registration(options, place, topics, told=lambda *master: seen.append(master))

    master = registration(PLACE, broker_role="SYNC_MASTER")
    master.start()
    await master.first(PATIENCE)
    slave = registration(Place("127.0.0.1:20911", "127.0.0.1:20912"), broker_role="SLAVE", broker_id=1)
    slave.start()
    await slave.first(PATIENCE)
    assert seen == [(PLACE.address, PLACE.ha_address)]
    slave.changed({""})
    await until(lambda: len(seen) > 1)
    assert seen == [(PLACE.address, PLACE.ha_address)] * 2
    await master.stop()
    slave.changed({""})
    await until(lambda: len(seen) > 2)
    assert seen[2] == ("", PLACE.ha_address)
    await slave.stop()
    await server.stop()


async def test_a_slave_that_began_before_its_master_hears_of_it_soon(tmp_path: Path) -> None:
    """The period is a minute: only the wait for a master makes the slave ask again."""
    server = namesrv(tmp_path)
    await server.start()
    seen: list[tuple[str, str]] = []

    def registration(place: Place, **settings: Any) -> Registration:
        options = BrokerOptions.of(namesrv_addr=server.address, register_name_server_period=60_000, **settings)
        return Registration(options, place, TopicTable(options, Effects(), 1), told=lambda *master: seen.append(master))

    slave = registration(Place("127.0.0.1:20911", "127.0.0.1:20912"), broker_role="SLAVE", broker_id=1)
    slave.start()
    await slave.first(PATIENCE)
    master = registration(PLACE, broker_role="SYNC_MASTER")
    master.start()
    await master.first(PATIENCE)
    await until(lambda: bool(seen))
    assert seen == [(PLACE.address, PLACE.ha_address)]
    await slave.stop()
    await master.stop()
    await server.stop()


async def test_reply_of_a_silent_name_server_expires(tmp_path: Path) -> None:
    first, second = namesrv(tmp_path), namesrv(tmp_path)
    for server in (first, second):
        await server.start()
    names = f"{first.address};{second.address}"
    seen: list[tuple[str, str]] = []
    options = BrokerOptions.of(namesrv_addr=names, broker_role="SLAVE", broker_id=1)
    topics = TopicTable(options, Effects(), 1)
    slave = Registration(
        options,
        Place("127.0.0.1:20911", "127.0.0.1:20912"),
        topics,
        told=lambda *master: seen.append(master),
    )
    places = [Place(f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}") for port in (30911, 40911)]
    masters = []
    for server, place in zip((first, second), places, strict=True):
        of_master = BrokerOptions.of(namesrv_addr=server.address)
        masters.append(Registration(of_master, place, TopicTable(of_master, Effects(), 1)))
        masters[-1].start()
        await masters[-1].first(PATIENCE)
    slave.start()
    await slave.first(PATIENCE)
    await until(lambda: bool(seen))
    await first.stop()
    slave.changed({""})
    await until(lambda: seen[-1][0] == places[1].address)
    await slave.stop()
    await asyncio.gather(*(master.stop() for master in masters))
    await second.stop()
