"""Random sequences of what operators and disks do to the Spark pipeline, each judged by a plain reader of the log."""
