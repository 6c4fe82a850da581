"""Settings of a listener, which brokers and name servers share."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from bolide.declaration import OURS, Port, PositiveBytes, PositiveCount, PositiveSeconds, Section

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Addresses that only this machine can reach."""
PLACE: Final = Section("Name and addresses")
CONNECTIONS: Final = Section("Connections")
TLS: Final = Section("TLS")
MONITORING: Final = Section("Monitoring")

BindAddress = Annotated[str, PLACE("Address to listen on.", java="0.0.0.0")]
ListenPort = Annotated[Port, PLACE("Port to listen on; 0 picks a free one.")]
LogFormat = Annotated[Literal["text", "json"], MONITORING("Form of the lines on standard error.", java=OURS)]
LogLevels = Annotated[
    str,
    MONITORING(
        "Lowest level that is logged: `WARNING` for all logs, `bolide.broker=DEBUG;bolide.routes=ERROR` for some. "
        "Empty: INFO.",
        java=OURS,
    ),
]
LogFile = Annotated[
    str,
    MONITORING("File for the lines of standard error; empty: no file. Servers cannot share a file.", java=OURS),
]
LogFileSize = Annotated[
    int,
    Meta(ge=4096, le=1 << 40, extra={"unit": "bytes"}),
    MONITORING("Size at which a new log file is started; older files are `logFile`.1, .2 and so on.", java=OURS),
]
LogFileAge = Annotated[
    int,
    Meta(ge=0, le=8784, extra={"unit": "h"}),
    MONITORING("Interval at which a new log file is started, counted from midnight; 0: only by size.", java=OURS),
]
LogFileCount = Annotated[PositiveCount, MONITORING("Number of older log files to keep.", java=OURS)]
MaxConnections = Annotated[
    PositiveCount,
    CONNECTIONS(
        "Maximum number of open connections; further connections are closed immediately.", live=True, java=OURS
    ),
]
MaxIdleSeconds = Annotated[
    PositiveSeconds, CONNECTIONS("Time without traffic after which a connection is closed.", live=True)
]
TrustedProxies = Annotated[
    str,
    CONNECTIONS(
        "Addresses and networks, separated by `,`, that load balancers send a PROXY header from; a header from "
        "any other address closes its connection.",
        java=OURS,
    ),
]
MaxUnfinishedBytes = Annotated[
    PositiveBytes,
    CONNECTIONS("Maximum bytes of unfinished frames; above it the connection with the oldest is closed.", java=OURS),
]
MaxFrameSeconds = Annotated[
    PositiveSeconds, CONNECTIONS("Time after which a connection with an incomplete frame is closed.", java=OURS)
]
TlsMode = Annotated[
    Literal["disabled", "permissive", "enforcing"],
    TLS("permissive: both TLS and unencrypted connections if there is a certificate. enforcing: TLS only."),
]
TlsCertPath = Annotated[str, TLS("PEM certificate chain; empty: no TLS.")]
TlsKeyPath = Annotated[str, TLS("PEM private key of the certificate.")]
TlsKeyPassword = Annotated[str, TLS("Password of the private key.")]
TlsTrustCertPath = Annotated[str, TLS("PEM certificates of the authorities trusted for clients.")]
TlsNeedClientAuth = Annotated[Literal["none", "optional", "require"], TLS("Whether clients show a certificate.")]
