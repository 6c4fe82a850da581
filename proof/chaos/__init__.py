"""Chaos: sets of brokers as processes behind proxies that delay, drop and cut, while machines die (`make chaos`)."""
