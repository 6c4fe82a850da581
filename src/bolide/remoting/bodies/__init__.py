"""JSON bodies of requests and responses, by noun."""
