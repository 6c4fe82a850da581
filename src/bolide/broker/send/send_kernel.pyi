from collections.abc import Callable

class SendKernel:
    def __init__(
        self,
        pieces: list[bytes],
        names: list[bytes],
        prefix: bytes,
        suffix: bytes,
        host: bytes,
        most: tuple[int, int, int, int],
        light_body: int,
    ) -> None: ...
    def take(
        self,
        data: bytes,
        at: int,
        enough: int,
        find: Callable[[bytes], tuple[int, dict[int, int]] | None],
        born_host: bytes,
        start: int,
        room: int,
        stamp: int,
    ) -> tuple[int, int, int, int, bytes, bytes, bytes, list[str | bytes]] | None: ...
    def take_long(
        self,
        head: bytes,
        body: bytes,
        find: Callable[[bytes], tuple[int, dict[int, int]] | None],
        born_host: bytes,
        start: int,
        room: int,
        stamp: int,
    ) -> tuple[int, int, int, int, bytes, bytes, bytes, list[str | bytes]] | None: ...
