"""Built-in sinks that write files: Parquet, and JSON lines. One file per task, named after batch and partition.

A complete file is renamed atomically, and replaces the file of an earlier attempt at the same rows.
"""

from __future__ import annotations

import base64
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bolide.spark.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from bolide.spark.jobs.sinks import SinkTask


COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "none")


class Output:
    """The file of a task, hidden until it is complete."""

    def __init__(self, folder: str, task: SinkTask, suffix: str) -> None:
        self.path = Path(folder, f"part-{task.batch:08d}-{task.partition:05d}.{suffix}")
        self.hidden = self.path.with_name(f".{self.path.name}.{task.attempt}")
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def publish(self) -> None:
        """Rename the complete file. A power failure before this leaves a hidden file, which is never read."""
        with open(self.hidden, "rb") as file:
            os.fsync(file.fileno())
        os.replace(self.hidden, self.path)

    def discard(self) -> None:
        """Delete the hidden file."""
        self.hidden.unlink(missing_ok=True)


class ParquetSink:
    """Writes Parquet. Options: `path`, the folder; `compression` (default zstd)."""

    def __init__(self, task: SinkTask) -> None:
        options = task.only("path", "compression")
        self._compression: Any = options.get("compression", COMPRESSIONS[0])
        if self._compression not in COMPRESSIONS:
            raise OptionError(f"option compression is one of {', '.join(COMPRESSIONS)}, not {self._compression!r}")
        self._output = Output(folder_of(options), task, "parquet")
        self._writer: Any = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        if self._writer is None:
            import pyarrow.parquet as pq

            self._writer = pq.ParquetWriter(self._output.hidden, batch.schema, compression=self._compression)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the footer and rename the file. Without rows, no file is written."""
        if self._writer is not None:
            self._writer.close()
            self._output.publish()

    def abort(self) -> None:
        """Delete the hidden file."""
        if self._writer is not None:
            self._writer.close()
        self._output.discard()


class JsonSink:
    """Writes one JSON line per message. Options: `path`, the folder; `body`: text (UTF-8, the default) or base64."""

    def __init__(self, task: SinkTask) -> None:
        options = task.only("path", "body")
        self._text = options.get("body", "text")
        if self._text not in ("text", "base64"):
            raise OptionError(f"option body is text or base64, not {self._text!r}")
        self._output = Output(folder_of(options), task, "jsonl")
        self._file: Any = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append one line per message."""
        if self._file is None:
            self._file = open(self._output.hidden, "w", encoding="utf-8")  # noqa: SIM115 # closed by close or abort
        for row in batch.to_pylist():
            self._file.write(json.dumps({name: self._plain(value) for name, value in row.items()}) + "\n")

    def _plain(self, value: Any) -> Any:
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace") if self._text == "text" else base64.b64encode(value).decode()
        if isinstance(value, list) and value and isinstance(value[0], tuple):
            value = dict(value)  # Arrow's form of a map
        if isinstance(value, dict):
            return {name: self._plain(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._plain(inner) for inner in value]
        if isinstance(value, Decimal):
            return str(value)
        return value.isoformat() if hasattr(value, "isoformat") else value

    def close(self) -> None:
        """Rename the file. Without rows, no file is written."""
        if self._file is not None:
            self._file.close()
            self._output.publish()

    def abort(self) -> None:
        """Delete the hidden file."""
        if self._file is not None:
            self._file.close()
        self._output.discard()


def folder_of(options: dict[str, str]) -> str:
    """Return the folder of the files. Raises `OptionError` if the option path is missing."""
    if not options.get("path"):
        raise OptionError("this sink writes files: set the option path to their folder")
    return options["path"]
