"""Bolide: Apache RocketMQ's messaging system in Python, with its data pipeline on Spark."""
