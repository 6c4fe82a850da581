"""The figures of a broker and of a name server for Prometheus, and whether they are ready for work.

Everything here runs on the thread of the monitoring port: it reads integers that the loop's thread writes, and copies a
table before it walks through it. Nothing waits for the loop or the disk.
"""
