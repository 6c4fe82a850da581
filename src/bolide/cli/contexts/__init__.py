"""The cluster that a command calls: contexts, the options that select it, and the call itself."""
