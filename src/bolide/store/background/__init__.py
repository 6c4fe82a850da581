"""What runs beside the writes: dispatch, flushing, retention."""
