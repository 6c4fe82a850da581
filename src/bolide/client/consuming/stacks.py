"""Stacks of the threads and tasks of this process, for an operator who checks why a member does not consume.

RocketMQ's clients put a thread dump (UtilAll.jstack) into the response to GET_CONSUMER_RUNNING_INFO.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from types import FrameType
from typing import Final

MAX_STACKS: Final = 200
"""Limit of threads, and of tasks: a process may have many thousands of tasks, and frames have a size limit."""


def stacks() -> str:
    """Return the stacks of all threads and of the tasks of the running loop, the newest call last. The text contains
    file names, line numbers and function names, but no values."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    found = [
        f'"{names.get(ident, "?")}" TID: {ident}\n{_lines(frame)}' for ident, frame in list(frames.items())[:MAX_STACKS]
    ]
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    for task in tasks[:MAX_STACKS]:
        at = task.get_stack(limit=1)
        ended = "  (done)" if task.done() else "  (in compiled code)"
        found.append(f'task "{task.get_name()}"\n{_task_lines(task) if at else ended}\n')
    for kind, count in (("threads", len(frames)), ("tasks", len(tasks))):
        if count > MAX_STACKS:
            found.append(f"{count - MAX_STACKS} more {kind}\n")
    return "\n".join(found)


def _lines(frame: FrameType) -> str:
    return "".join(traceback.format_stack(frame))


def _task_lines(task: asyncio.Task[object]) -> str:
    """Return the awaits of a task, from its outermost coroutine to its current line."""
    lines = []
    awaited: object = task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            break
        code = frame.f_code
        lines.append(f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}')
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return "\n".join(lines)
