"""Random actions of operators and disks under the Spark pipeline; an independent reader of the log judges them."""
