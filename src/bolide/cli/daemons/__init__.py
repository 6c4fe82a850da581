"""`bolide namesrv`, `broker`, `controller`, `standalone`, `console`, and the checks before they start."""
