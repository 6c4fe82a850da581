"""Access to the disk: files, handles, locks and maps, and the lists of segments that log and queues share."""
