"""Background work of the store: dispatch to queues and index, flushing, retention."""
