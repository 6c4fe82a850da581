from __future__ import annotations

from proof.attack import journal
from proof.attack.bookkeeping import CRASHED, Bookkeeping
from proof.kit.journal import Entry
from proof.ledger import Content, Place, Promises, Queue, QueueView, Served, View, judge, passed_over

QUEUE = Queue("broker-1", "plain", 0)
SENT = [1.0, journal.SEND, 77, "plain", 100, "c", "k77", {"n": "5"}, "plain", 0.0, ""]
DONE = [2.0, journal.DONE, [77], "broker-1", "plain", 0, 0]
BODY = journal.body(77, 100)
GOT = [3.0, journal.GOT, "9-1", "attack-all", "broker-1", "plain", 0, 0, 77, "plain", journal.check(BODY), "c", "k77"]
GOT = [*GOT, {"n": "5"}]
LISTENED = [4.0, journal.LISTENED, "9-1", True]


def view(body: bytes = BODY, tags: str = "c") -> View:
    content = Content("plain", body, tags, "k77", (("n", "5"),))
    return View({QUEUE: QueueView(0, 1, [Served(Place(QUEUE, 0), content)])}, at=10.0)


def findings(entries: list[Entry], found: View) -> list[str]:
    book = Bookkeeping()
    book.tell(entries)
    book.number_in_ledger(found)
    return [finding.promise for finding in judge(book.ledger, found, Promises())]


def passed(entries: list[Entry], found: View) -> set[tuple[str, int]]:
    book = Bookkeeping()
    book.tell(entries)
    book.number_in_ledger(found)
    return book.in_journals(passed_over(book.ledger, found, Promises()))


def test_a_message_that_is_kept_and_consumed_is_no_finding() -> None:
    assert findings([LISTENED, GOT, DONE, SENT], view()) == []  # journals are told in the order of their times


def test_an_acknowledged_message_that_is_gone_is_found() -> None:
    assert "acknowledged is kept" in findings([SENT, DONE], View(at=10.0))


def test_a_message_that_no_group_consumed_is_found() -> None:
    assert findings([SENT, DONE], view()) == ["consumed at least once"]


def test_a_refused_message_that_is_there_is_found() -> None:
    refused = [2.0, journal.REFUSED, [77], "busy"]
    assert "refused is nowhere" in findings([SENT, refused], view())


def test_other_bytes_than_were_sent_are_found() -> None:
    assert "served as sent" in findings([SENT, DONE, GOT, LISTENED], view(BODY[:-1] + b"?"))
    assert "served as sent" in findings([SENT, DONE, GOT, LISTENED], view(tags="d"))
    other = [*GOT[:10], 1, *GOT[11:]]
    assert "served as sent" in findings([SENT, DONE, other, LISTENED], view())


def test_unsent_message_is_found() -> None:
    assert "served what was not sent" in findings([SENT, DONE, GOT, LISTENED], view(b"#5#what nobody sent"))


def test_a_change_that_was_answered_must_last() -> None:
    key = ["topic", "broker-1", "op-1"]
    entries = [[1.0, journal.CHANGING, "9-2", key, [2, 2, 6]], [2.0, journal.CHANGED, "9-2", journal.DONE]]
    kept, lost = View(), View()
    kept.tables[tuple(key)], lost.tables[tuple(key)] = (2, 2, 6), None
    assert findings(entries, kept) == []
    assert findings(entries, lost) == ["answered tables are kept"]


def test_a_change_that_was_answered_must_be_there_while_its_server_is_down() -> None:
    key = ["topic", "broker-1", "op-1"]
    made = [[1.0, journal.CHANGING, "9-2", key, [2, 2, 6]], [2.0, journal.CHANGED, "9-2", journal.DONE]]
    grown = [[4.0, journal.CHANGING, "9-3", key, [5, 5, 6]], [5.0, journal.CHANGED, "9-3", journal.DONE]]
    end = View()
    end.tables[tuple(key)] = (5, 5, 6)
    assert findings([*made, *grown, [3.0, journal.TABLES, [[key, [2, 2, 6]]]]], end) == []
    assert findings([*made, *grown, [3.0, journal.TABLES, [[key, None]]]], end) == ["answered tables are kept"]
    assert findings([*made, *grown, [4.5, journal.TABLES, [[key, [5, 5, 6]]]]], end) == []


def test_deliveries_of_a_replaced_master_are_not_awaited_again() -> None:
    lost, killed = [3.5, CRASHED, "broker-1", True], [3.5, CRASHED, "broker-1"]
    sent_before = [0.1, journal.SEND, 78, "plain", 100, "c", "k78", {"n": "5"}, "plain", 0.0, ""]
    refused_here = [0.2, journal.UNKNOWN, [78], "FLUSH_SLAVE_TIMEOUT"]
    check = journal.check(journal.body(78, 100))
    of_another = [*GOT[4:8], 78, "plain", check, "c", "k78", {"n": "5"}]
    listened = [0.4, journal.LISTENED, "9-0", True]
    read_another, read_by_others = (
        [sent_before, refused_here, [0.3, journal.GOT, "9-0", group, *of_another], listened]
        for group in ("attack-all", "attack-tagged")
    )
    for entries, offset, awaited, carried in (
        ([SENT, DONE, *read_by_others, lost], 1, True, False),
        ([SENT, DONE], 1, True, False),
        ([SENT, DONE, *read_another, killed], 1, True, False),
        ([SENT, DONE, *read_another, lost], 0, True, False),  # the group has yet to come there
        ([SENT, DONE, lost], 1, True, False),  # nothing else was at the offset that it has passed
        ([SENT, DONE, *read_another, lost], 1, False, True),
        ([SENT, DONE, GOT, LISTENED, *read_another, lost], 1, False, False),
    ):
        assert ("consumed at least once" in findings(entries, read_to(offset))) is awaited
        assert passed(entries, read_to(offset)) == ({("attack-all", 77)} if carried else set())


def read_to(offset: int) -> View:
    found = view()
    found.offsets["attack-all", QUEUE] = offset
    return found
