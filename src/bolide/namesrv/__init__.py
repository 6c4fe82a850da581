"""The services of a name server."""
