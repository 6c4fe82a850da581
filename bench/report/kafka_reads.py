"""What reads of several cases in several rounds say beside one another."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.shown import aligned, median


@dataclass(frozen=True)
class Read:
    """One read of all messages. `cpu_seconds` are those of Spark, its workers and the brokers together."""

    case: str
    round: int
    rows: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds


def ratios(reads: Sequence[Read], other: str) -> dict[str, float]:
    """Median over the rounds of each case's rate by that of another in the same round."""
    rates = {(read.case, read.round): read.rate for read in reads}
    numbers = {read.round for read in reads}
    cases = dict.fromkeys(read.case for read in reads)
    return {case: median([rates[case, number] / rates[other, number] for number in numbers]) for case in cases}


def table(reads: Sequence[Read], other: str, limit: str) -> str:
    """A line for each case: medians, and the ratios to another case and to the limit."""
    to_other, to_limit = ratios(reads, other), ratios(reads, limit)
    rows = [["", "rows/s", f"of {other}", "of the limit", "CPU µs/row", "rounds, rows/s"]]
    for case in to_other:
        some = sorted((read for read in reads if read.case == case), key=lambda read: read.round)
        micro = median([1e6 * read.cpu_seconds / read.rows for read in some])
        row = [case, f"{median([read.rate for read in some]):,.0f}", f"{to_other[case]:.2f}", f"{to_limit[case]:.2f}"]
        rows.append([*row, f"{micro:.2f}", "  ".join(f"{read.rate:,.0f}" for read in some)])
    return aligned(rows)
