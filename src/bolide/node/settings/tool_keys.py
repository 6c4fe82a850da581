"""Keys that mqadmin reads from every broker in addition to its settings: exportConfigs of 4.9 fails if one is
missing."""

from __future__ import annotations


def with_tool_keys(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings with these keys. A Java broker's useTLS is the setting of its client; filter servers do not
    exist."""
    out = settings.get("tlsEnable") or str(settings.get("tlsMode") == "enforcing").lower()
    return {"useTLS": out, "filterServerNums": "0", **settings}
