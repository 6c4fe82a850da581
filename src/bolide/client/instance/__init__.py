"""One connection of a process to a cluster: routes, name servers, heartbeats, requests and options."""
