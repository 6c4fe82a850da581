"""Work beside the writes: dispatch to queues and index, flushing, retention."""
