"""The Spark session of a command: its JVM, the environment of its workers, and progress."""
