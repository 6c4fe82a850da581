"""The controller: elects the master of each broker set, counts its epochs, and stores its in-sync set.

Pure rules without sockets, disk or clock. The input is a request and the state of its set; the output is a decision,
with the new state if it changes. A decision is valid once a `ConsensusStore` has stored it.
"""
