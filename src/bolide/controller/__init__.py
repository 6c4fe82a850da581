"""The controller: who is the master of a set of replicas, in which epoch, and who has what it acknowledged.

Rules without sockets, disk or clock. A request and the state of its set go in; a decision comes out, with the new
state if there is one. A decision counts once a `ConsensusStore` has kept it.
"""
