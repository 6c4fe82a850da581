"""`bolide bench`: load against brokers, and speed of the pipeline."""
