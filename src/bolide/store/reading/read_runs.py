"""Reads the bytes of a pull with few calls and few copies, as runs of contiguous records.

If the native kernel (`read_kernel`) is available, it finds the runs and copies their bytes. `Runs` is the reference
implementation, and also reads ranges that have no view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from bolide.store.disk.extents import Extent
from bolide.store.disk.file_maps import MOST_BYTES
from bolide.store.errors import StoreDamaged
from bolide.store.log.commit_log import CommitLog
from bolide.store.options import StoreOptions
from bolide.store.reading.read_result import ReadResult

if TYPE_CHECKING:
    from bolide.store.reading.read_kernel import ReadKernel

GAP: Final = 16 * 1024
"""Maximum number of bytes between two records that are read together: reading them costs less than a system call."""
_SPAN: Final = 256 * 1024
_VIEW_GAP: Final = 64 * 1024
"""Like `GAP` for a view, which does not copy the bytes between the records."""
_LARGE: Final = 16 * 1024
"""Average size in bytes at or above which records are returned as views of the read data. Smaller ones are copied: one
buffer is cheaper for the socket than many, and does not retain unsent bytes in memory."""


def kernel_type() -> type[ReadKernel] | None:
    """Return the native kernel, or None if it is not available."""
    try:
        from bolide.store.reading.read_kernel import ReadKernel
    except ImportError:
        return None
    return ReadKernel


def kernel_for(options: StoreOptions, memory: i64) -> ReadKernel | None:
    """Return a kernel with these limits, or None if it is not available. `memory`: number of bytes at the end of the
    log that are assumed to be in memory."""
    kernel = kernel_type()
    if kernel is None:
        return None
    return kernel(
        int(memory),
        options.max_transfer_bytes_on_message_in_memory,
        options.max_transfer_count_on_message_in_memory,
        options.max_transfer_bytes_on_message_in_disk,
        options.max_transfer_count_on_message_in_disk,
        _VIEW_GAP,
        MOST_BYTES,
        _LARGE,
    )


@final
class Runs:
    """Reads the records of one pull from the log, and adds them to `result`."""

    def __init__(self, log: CommitLog, result: ReadResult) -> None:
        self._log = log
        self._result = result
        self._run_at: i64 = -1
        self._run_size: i64 = 0
        self._starts: list[int] = []
        self._sizes: list[int] = []
        self.first: i64 = -1
        """Offset of the first record that was read, or -1."""

    def add(self, physical_offset: i64, size: i64) -> None:
        """Add a record whose bytes need no check."""
        if physical_offset == self._run_at + self._run_size:
            self._run_size += size
            return
        self._end_run()
        self._run_at = physical_offset
        self._run_size = size

    def _end_run(self) -> None:
        if self._run_size > 0:
            self._starts.append(int(self._run_at))
            self._sizes.append(int(self._run_size))
            self._run_size = 0

    def add_cold(self, extent: Extent) -> None:
        """Add an extent that is not in memory."""
        cold = self._result.cold
        if cold:
            last = cold[-1]
            if last.path == extent.path and last.offset <= extent.offset <= last.offset + last.size:
                last.size = max(last.size, extent.offset + extent.size - last.offset)
                return
        cold.append(extent)

    def collect(self) -> None:
        """Read the runs into the result's buffers. Ranges that are not in memory are added to `cold`."""
        self._end_run()
        count = len(self._starts)
        first = 0
        if count > 0:
            self.first = self._starts[0]
        while first < count:
            after = self._close_ones(first, count, _VIEW_GAP, MOST_BYTES)
            if not self._view_span(first, after):
                self._read_spans(first, after)
            first = after
        self._join()

    def collect_from(self, kernel: ReadKernel) -> None:
        """Like `collect`, for runs found by a kernel."""
        buffers = self._result.buffers
        while True:
            span = kernel.next_span()
            if span is None:
                break
            if self.first < 0:
                self.first = span[0]
            view = self._log.view(span[0], span[1])
            if view is not None:
                buffers.extend(kernel.copied(view))
            else:
                self._starts, self._sizes = kernel.runs()
                self._read_spans(0, len(self._starts))
        self._join()

    def _join(self) -> None:
        buffers = self._result.buffers
        if len(buffers) > 1 and self._result.size < _LARGE * len(buffers):
            self._result.buffers = [b"".join(buffers)]

    def _close_ones(self, first: int, last: int, gap: i64, most: i64) -> int:
        """Return the end of the runs that start with `first` and are close together in one file, so that one call reads
        them."""
        segment = self._log.segment_size
        begin: i64 = self._starts[first]
        end: i64 = begin + self._sizes[first]
        file_end = begin - begin % segment + segment
        after = first + 1
        while after < last:
            at: i64 = self._starts[after]
            if at < end or at - end > gap or at >= file_end:
                break
            stop: i64 = at + self._sizes[after]
            if stop - begin > most:
                break
            end = stop
            after += 1
        return after

    def _view_span(self, first: int, after: int) -> bool:
        """Copy the runs from `first` to before `after` from a view of the log. Return False if there is no view."""
        begin = self._starts[first]
        end = self._starts[after - 1] + self._sizes[after - 1]
        view = self._log.view(begin, end - begin)
        if view is None:
            return False
        buffers = self._result.buffers
        if after == first + 1:
            buffers.append(bytes(view))
            return True
        parts: list[memoryview] = []
        wanted: i64 = 0
        for run in range(first, after):
            within = self._starts[run] - begin
            size = self._sizes[run]
            parts.append(view[within : within + size])
            wanted += size
        if wanted >= _LARGE * (after - first):
            for part in parts:
                buffers.append(bytes(part))
        else:
            buffers.append(b"".join(parts))
        return True

    def _read_spans(self, first: int, last: int) -> None:
        """Read the runs from `first` to before `last`, for which there is no view."""
        while first < last:
            after = self._close_ones(first, last, GAP, _SPAN)
            self._read_span(first, after)
            first = after

    def _read_span(self, first: int, after: int) -> None:
        """Read the runs from `first` to before `after`, which are close together, with one call."""
        segments = self._log.segments
        begin: i64 = self._starts[first]
        end: i64 = self._starts[after - 1] + self._sizes[after - 1]
        data = segments.read_warm(begin, end - begin)
        if data is None:
            self._log.evicted(begin)
            self.add_cold(segments.extent(begin, end - begin))
            return
        if len(data) < end - begin:
            raise StoreDamaged(
                f"{segments.path_at(begin)} is shorter than expected: {len(data)} of {end - begin} bytes at offset "
                f"{begin} of the log; stop the broker and restore the file"
            )
        buffers = self._result.buffers
        if after == first + 1:
            buffers.append(data)
            return
        wanted: i64 = 0
        for run in range(first, after):
            wanted += self._sizes[run]
        if wanted >= _LARGE * (after - first):
            view = memoryview(data)
            while first < after:
                at = self._starts[first] - int(begin)
                buffers.append(view[at : at + self._sizes[first]])
                first += 1
            return
        while first < after:
            within: i64 = self._starts[first] - begin
            buffers.append(data[within : within + self._sizes[first]])
            first += 1
