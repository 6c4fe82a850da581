"""Dead letters: list the groups that have some, show them, and resend them to their topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from bolide.admin.dead_letters import GroupLetters, Resent, dead_letter, origin_of, resend
from bolide.admin.newest import MOST_SKIPPED
from bolide.admin.together import each
from bolide.client.messages.errors import TopicNotFound
from bolide.client.messages.received import ReceivedMessage
from bolide.console.errors import PageRefused
from bolide.console.pages.messages import rows_of
from bolide.console.render import link
from bolide.console.visit import Page, Visit, missing
from bolide.layout.names import DLQ_PREFIX

MOST_SENT: Final = 64
"""Maximum number of dead letters that a form resends; `bolide dead-letter resend` has no limit."""


async def dead_letters(visit: Visit) -> Response:
    """Show the groups that have dead letters. Sorts each page by the number of dead letters, descending."""
    search = visit.query.text("q")
    topics = [topic for topic in await visit.view.dead_letter_topics() if search.lower() in topic.lower()]
    part = visit.rows(len(topics))
    stats = await visit.view.stats_of(topics[part.first : part.last])
    rows = sorted((GroupLetters.of(topic, queues) for topic, queues in stats.items()), key=lambda row: row.rank)
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


async def redrive(visit: Visit) -> Response:
    """Resend the selected dead letters to the given topic, or to the original topic of each."""
    group = visit.form.needed("group", "the name of the group")
    to = visit.form.text("to")
    ids = list(dict.fromkeys(visit.form.all("id")))
    if not ids:
        raise PageRefused("no dead letter is selected")
    if len(ids) > MOST_SENT:
        raise PageRefused(f"one form can resend at most {MOST_SENT} dead letters: select fewer")
    letters = await each(ids, lambda message_id: _letter(visit, group, message_id))
    lost = [letter for letter in letters.values() if not (to or origin_of(letter))]
    if lost:
        raise PageRefused(f"{len(lost)} of them do not contain their original topic: enter a topic")
    resent = Resent()
    await resend(await visit.view.producer(), letters.values(), resent, topic=to)
    stop = f"; {resent.error}; the rest was not sent" if resent.error else "; they also remain here"
    text = f"{resent.count} of {len(letters)} dead letters are resent{stop}"
    return visit.done(text, link("/dead-letters/show", group=group))


async def _letter(visit: Visit, group: str, message_id: str) -> ReceivedMessage:
    try:
        found = await dead_letter(visit.view.admin, group, message_id)
    except TopicNotFound:
        found = None
    if found is None:
        raise missing(f"dead letter {message_id[:64]} of this group")
    return found


PAGES: Final[Sequence[Page]] = (
    Page("/dead-letters", dead_letters),
    Page("/dead-letters/show", of_group),
    Page("/dead-letters/redrive", redrive, change=True),
)
