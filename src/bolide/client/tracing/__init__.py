"""Interceptors, RocketMQ's message traces, and spans of OpenTelemetry."""
