"""HTTP pages for monitoring systems: /metrics, /healthz and /readyz, served by a separate thread."""
