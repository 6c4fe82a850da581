"""Settings of how a broker registers with its name servers."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from bolide.declaration import DeclaredOptions, PositiveMs, Section

REGISTRATION: Final = Section("Registration")


class RegistrationOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Content and interval of registrations."""

    namesrv_addr: Annotated[str, REGISTRATION("Name servers, `host:port;host:port`; empty: standalone.")] = ""
    register_broker_timeout_mills: Annotated[
        PositiveMs, REGISTRATION("Time limit for the response to a registration.")
    ] = 24_000
    register_name_server_period: Annotated[
        int, Meta(ge=10_000, le=60_000, extra={"unit": "ms"}), REGISTRATION("Time between registrations.")
    ] = 30_000
    compressed_register: Annotated[bool, REGISTRATION("Compress the topics in a registration.")] = False
    region_id: Annotated[str, REGISTRATION("Region returned to producers with each acknowledgement.")] = "DefaultRegion"
