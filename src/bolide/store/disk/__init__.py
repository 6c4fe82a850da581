"""Access to the disk: files, handles, locks and maps, and the segment lists shared by the log and the queues."""
