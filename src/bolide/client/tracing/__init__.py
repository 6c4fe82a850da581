"""Interceptors, RocketMQ's message traces, and OpenTelemetry spans."""
