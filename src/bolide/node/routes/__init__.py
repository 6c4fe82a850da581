"""A broker and its name servers: registration, and the routes that a broker asks for."""
