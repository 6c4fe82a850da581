"""Real brokers, name servers and clients under real faults, judged by the ledger: `make attack`."""
