"""What a node has of its machine: clocks, disk, memory, open files, and small files it keeps."""
