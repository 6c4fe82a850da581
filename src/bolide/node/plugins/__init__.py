"""How a node loads plug-ins and runs them."""
