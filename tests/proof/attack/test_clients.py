from __future__ import annotations

from contextlib import closing
from pathlib import Path

from proof.attack import journal
from proof.attack.clients import Progress
from proof.kit.journal import Follower, Journal


def test_acknowledged_message_is_awaited_until_its_groups_accept_it(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    progress = Progress([Follower(path)])
    progress.read()  # the file may come later
    book = Journal(path)
    for number, topic, tags in ((1, "plain", "c"), (2, "orders", "a"), (3, "op-1", "a"), (4, "plain", "b")):
        book.note(journal.SEND, number, topic, 10, tags, "", {"n": "61" if number == 4 else "60"}, "plain", 0.0, "")
        book.note(journal.DONE, [number], "broker-1", topic, 0, number)
    progress.read()
    assert sorted(progress.waiting()) == [
        ("attack-all", 1, "plain"),
        ("attack-all", 2, "orders"),
        ("attack-all", 4, "plain"),
        ("attack-orderly", 2, "orders"),
        ("attack-sql", 4, "plain"),
        ("attack-tagged", 4, "plain"),
    ]
    for serial, group, number, accepted in (
        ("a", "attack-all", 1, False),
        ("b", "attack-all", 2, True),
        ("c", "attack-orderly", 2, True),
        ("d", "attack-all", 1, True),
        ("e", "attack-all", 4, True),
        ("f", "attack-sql", 4, True),
        ("g", "attack-tagged", 4, True),
    ):
        book.note(journal.GOT, serial, group, "broker-1", "plain", 0, 0, number, "plain", 0, "", "", {})
        book.note(journal.LISTENED, serial, accepted)
    progress.read()
    assert progress.waiting() == []
    assert (progress.sent, progress.counts) == (4, {"done": 4, "consumed": 6})
    book.close()


def test_a_transaction_is_awaited_only_if_it_commits(tmp_path: Path) -> None:
    numbers = range(1, 20)
    book = Journal(tmp_path / "journal")
    for number in numbers:
        book.note(journal.SEND, number, "trans", 10, "", "", {}, "half", 0.0, "")
        book.note(journal.DONE, [number], "", "", 0, 0)
    book.close()
    progress = Progress([Follower(tmp_path / "journal")])
    progress.read()
    assert [number for _, number, _ in sorted(progress.waiting())] == [one for one in numbers if journal.commits(one)]


def test_the_torn_last_line_of_a_killed_process_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with closing(Journal(path)) as book:
        book.note(journal.READY, "first")
    with path.open("ab") as file:
        file.write(b'[1.0,"don')
    follower = Follower(path)
    assert [entry[2] for entry in follower.entries()] == ["first"]
    for name in ("lost with the torn line", "second"):
        with closing(Journal(path)) as book:
            book.note(journal.READY, name)
    assert [entry[2] for entry in follower.entries()] == ["second"]
