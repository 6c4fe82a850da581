"""What a monitoring system asks a process over HTTP: /metrics, /healthz and /readyz, on a thread of their own."""
