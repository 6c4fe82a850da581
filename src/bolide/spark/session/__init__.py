"""The Spark session of a command: its JVM, what workers need, and progress."""
