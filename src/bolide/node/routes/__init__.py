"""Registration of a broker with name servers, and route requests. Also copies the master's tables to a slave."""
