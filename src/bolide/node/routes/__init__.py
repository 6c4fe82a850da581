"""A broker and its name servers: registration, and routes that a broker asks for. A slave and its master's tables."""
