"""One struct per request and response header, by noun."""
