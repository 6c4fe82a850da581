"""Keys that mqadmin reads of every broker beside its settings: exportConfigs of 4.9 fails where one is missing."""

from __future__ import annotations


def with_tool_keys(settings: dict[str, str]) -> dict[str, str]:
    """The settings with these keys. A Java broker's useTLS is that of its client; it has no filter servers either."""
    out = settings.get("tlsEnable") or str(settings.get("tlsMode") == "enforcing").lower()
    return {"useTLS": out, "filterServerNums": "0", **settings}
