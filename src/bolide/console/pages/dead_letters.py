"""Dead letters: list the groups that have some, show them, and resend them to their topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from bolide.admin.together import each
from bolide.client.messages.received import ReceivedMessage
from bolide.console.cluster import MOST_SKIPPED, stored
from bolide.console.errors import PageRefused
from bolide.console.pages.messages import again, rows_of
from bolide.console.render import link
from bolide.console.visit import Page, Visit, missing
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.names import DLQ_PREFIX

MOST_SENT: Final = 64
"""Maximum number of dead letters that a form resends; `bolide pipeline redrive` has no limit."""


async def dead_letters(visit: Visit) -> Response:
    """Show the groups that have dead letters. Sorts each page by the number of dead letters, descending."""
    search = visit.query.text("q")
    topics = [topic for topic in await visit.view.dead_letter_topics() if search.lower() in topic.lower()]
    part = visit.rows(len(topics))
    stats = await visit.view.stats_of(topics[part.first : part.last])
    rows = []
    for topic, queues in stats.items():
        count = None if queues is None else stored(queues)
        last = max((queue.last_update for queue in queues or ()), default=0)
        rows.append((topic.removeprefix(DLQ_PREFIX), topic, count, last))
    rows.sort(key=lambda row: (-(row[2] or 0), row[0]))
    return visit.page("dead_letters.html", rows=rows, part=part, search=search)


async def of_group(visit: Visit) -> Response:
    """Show the newest dead letters of a group."""
    group = visit.query.needed("group", "the name of the group")
    topic = DLQ_PREFIX + group
    if topic not in await visit.view.topic_configs():
        raise missing(f"dead letter of group {group}")
    query = visit.query
    begin, end, skip = query.moment("begin") or 0, query.moment("end"), query.number("skip", 0, most=MOST_SKIPPED)
    found, older = await visit.view.newest(topic, begin, end, skip)
    letters = [(row, origin_of(row.message)) for row in rows_of(found)]
    values = {name: visit.query.text(name) for name in ("begin", "end")}
    return visit.page(
        "dead_letters_of.html", group=group, topic=topic, letters=letters, older=older, values=values, most=MOST_SENT
    )


def origin_of(letter: ReceivedMessage) -> str:
    """Return the original topic of a dead letter, or "" if its properties do not contain it."""
    properties = letter.properties
    return properties.get(names.DLQ_ORIGIN_TOPIC) or properties.get(names.RETRY_TOPIC) or ""


async def redrive(visit: Visit) -> Response:
    """Resend the selected dead letters to the given topic, or to the original topic of each."""
    group = visit.form.needed("group", "the name of the group")
    topic, to = DLQ_PREFIX + group, visit.form.text("to")
    ids = list(dict.fromkeys(visit.form.all("id")))
    if not ids:
        raise PageRefused("no dead letter is selected")
    if len(ids) > MOST_SENT:
        raise PageRefused(f"one form can resend at most {MOST_SENT} dead letters: select fewer")
    letters = await each(ids, lambda message_id: _letter(visit, message_id, topic))
    lost = [letter for letter in letters.values() if not (to or origin_of(letter))]
    if lost:
        raise PageRefused(f"{len(lost)} of them do not contain their original topic: enter a topic")
    producer = await visit.view.producer()
    failed = ""
    sent = 0
    for letter in letters.values():
        try:
            await producer.send(again(letter, to or origin_of(letter)))
            sent += 1
        except BolideError as error:
            failed = f"; the next one failed, and the rest was not sent: {error}"
            break
    text = f"{sent} of {len(letters)} dead letters are resent{failed or '; they also remain here'}"
    return visit.done(text, link("/dead-letters/show", group=group))


async def _letter(visit: Visit, message_id: str, topic: str) -> ReceivedMessage:
    found = await visit.view.admin.message(message_id)
    if found is None or found.record.topic != topic:
        raise missing(f"dead letter {message_id[:64]} of this group")
    return found


PAGES: Final[Sequence[Page]] = (
    Page("/dead-letters", dead_letters),
    Page("/dead-letters/show", of_group),
    Page("/dead-letters/redrive", redrive, change=True),
)
