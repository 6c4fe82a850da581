"""Scrapes a node of this process, from a thread, as Prometheus does from another machine."""

from __future__ import annotations

import asyncio
import http.client

from prometheus_client.parser import text_string_to_metric_families

from proof.kit.waiting import PATIENCE

Samples = dict[str, list[tuple[dict[str, str], float]]]


def page(port: int, path: str, accept: str = "") -> tuple[int, str, str]:
    """Status, content type and text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers={"Accept": accept} if accept else {})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        connection.close()


async def asked(port: int, path: str) -> tuple[int, str]:
    """Status and text of a page."""
    status, _, text = await asyncio.to_thread(page, port, path)
    return status, text


async def scraped(port: int) -> Samples:
    """Every sample, by name."""
    status, text = await asked(port, "/metrics")
    assert status == 200, text
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    """The one sample with these labels."""
    (found,) = [each for has, each in samples[name] if labels.items() <= has.items()]
    return found
