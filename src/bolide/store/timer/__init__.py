"""The timer's log and wheel."""
