"""Metrics for Prometheus and readiness of brokers, controllers and name servers.

This code runs on the thread of the monitoring port. It reads integers that the loop's thread writes, and copies a table
before iterating over it. It never waits for the loop or the disk.
"""
