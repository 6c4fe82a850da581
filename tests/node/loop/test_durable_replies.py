"""When a table counts as saved: after a write that held its last change, and no other."""

from __future__ import annotations

from collections.abc import Callable

from bolide.broker.core.effects import Effects
from bolide.node.loop.durable_replies import DurableReplies
from tests.node.loop.executing import NotingHost


class Tables:
    """Replies that wait for tables, with a host that only notes."""

    def __init__(self) -> None:
        self.effects = Effects()
        self.host = NotingHost()
        self.replies = DurableReplies(self.host, self.effects, lambda *of: None, lambda entry: None)

    def changed(self) -> Callable[[str], None]:
        """A change of a table, whose write begins; what tells its end."""
        self.effects.persist("topics")
        self.replies.persist({"topics"})
        return self.host.persisted.pop()[1]

    def unsaved(self) -> bool:
        self.effects.take()
        self.effects.persist_unsaved("topics")
        return bool(self.effects.take().persists)


def test_a_table_is_saved_once_its_last_change_is_on_disk() -> None:
    tables = Tables()
    assert not tables.unsaved(), "a table that nobody changed"
    first, second = tables.changed(), tables.changed()
    first("")
    assert tables.unsaved(), "it lacks the second change"
    second("")
    written = tables.changed()
    written("")
    assert not tables.unsaved()


def test_a_write_that_failed_saves_nothing() -> None:
    tables = Tables()
    tables.changed()("the disk is full")
    assert tables.unsaved()
