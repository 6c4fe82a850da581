"""The modules that mypyc compiles, sorted, with the reason for each: the one place that names them.

A module that is not named here stays interpreted: those with msgspec structs (their metaclass cannot be compiled),
those that pickle to Spark, and everything that does not run once or more per message.
"""

from __future__ import annotations

from typing import Final

COMPILED: Final[dict[str, str]] = {
    "bolide.broker.channel": "attributes read for every command",
    "bolide.broker.effects": "one call for every command that has an effect",
    "bolide.broker.hold": "one entry a held pull, one look-up a message that arrives",
    "bolide.broker.names": "checks the topic of every send",
    "bolide.broker.outcome": "one object made for every command",
    "bolide.broker.pull": "answers every pull",
    "bolide.broker.pull_filter": "chooses the filter of every pull and runs it over properties",
    "bolide.broker.put": "the one door to the log: every message passes it",
    "bolide.broker.refused": "the answers of the checks on the hot path",
    "bolide.broker.send": "answers every send",
    "bolide.broker.send_batch": "one turn of its loop a message of a batch",
    "bolide.broker.send_rewrite": "rewrites the properties of every message",
    "bolide.broker.stats": "counters raised by every message",
    "bolide.broker.uniq_key": "reads the id out of every message",
    "bolide.dispatch.row": "one object made for every message stored",
    "bolide.dispatch.sql92": "evaluated for every message of a filtered pull",
    "bolide.dispatch.sql92_lexer": "input of the parser below",
    "bolide.dispatch.sql92_nodes": "the parts of a filter: evaluated for every message of a filtered pull",
    "bolide.dispatch.sql92_parser": "makes the parts above, which must be native for it",
    "bolide.layout.ext_unit": "one unit a message where the filter bitmap is on",
    "bolide.layout.hashes": "five hashes a message",
    "bolide.layout.index_file": "up to three entries a message",
    "bolide.layout.message_id": "one id a message in each send answer",
    "bolide.layout.properties": "parsed and formatted for every message",
    "bolide.layout.queue_unit": "one unit a message, and one a message pulled",
    "bolide.layout.record": "the stored record: encoded on send, decoded by clients and recovery",
    "bolide.node.executor": "carries out the outcome of every command",
    "bolide.node.turns": "one call every turn of the loop",
    "bolide.remoting.batch": "one turn of its loop a message of a batch",
    "bolide.remoting.command": "the envelope of every frame",
    "bolide.remoting.connection": "cuts the frames out of every read",
    "bolide.remoting.replies": "the answer to every send and every pull",
    "bolide.store.arrival": "one object a message dispatched",
    "bolide.store.commit_log": "encodes and gathers every message",
    "bolide.store.consume_queue": "one append a message, one read a pull",
    "bolide.store.consume_queue_ext": "one unit a message where the filter bitmap is on",
    "bolide.store.consume_queues": "finds the queue of every message",
    "bolide.store.index_file": "slots and entries of every message",
    "bolide.store.index_service": "picks the file for every entry",
    "bolide.store.lookups": "the reading half, and base class, of message_store",
    "bolide.store.message_store": "append, write and dispatch of every message",
    "bolide.store.put": "one object made for every message sent",
    "bolide.store.read": "one turn of its loop a message pulled",
    "bolide.store.recovery": "one turn of its loop a message read at start",
    "bolide.store.reput": "dispatches every message",
    "bolide.store.running_flags": "asked before every append and dispatch",
    "bolide.store.segments": "offset arithmetic of every write and read",
}
