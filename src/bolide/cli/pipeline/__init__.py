"""`bolide pipeline`: the jobs on Spark."""
