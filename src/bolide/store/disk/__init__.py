"""Files, handles, locks and maps: all that touches the disk, and the pieces that queue and log files share."""
