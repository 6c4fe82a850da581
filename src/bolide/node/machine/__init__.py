"""Access of a node to its host: clocks, disk, memory, open files, and small state files."""
