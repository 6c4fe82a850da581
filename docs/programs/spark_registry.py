"""A schema registry in a folder. Each body starts with the name of a schema and a line end."""

from pathlib import Path

from bolide.bodies.registry import FramedBody, RegisteredSchema, RegistryError, UnfitBody


class FolderRegistry:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, body: bytes) -> FramedBody:
        name, line_end, payload = body.partition(b"\n")
        file = self._folder / f"{name.decode('ascii', 'replace')}.avsc"
        if not line_end or file.parent != self._folder or not file.exists():
            raise UnfitBody("it does not start with the name of a schema")
        return FramedBody(RegisteredSchema(file.stem, "avro", file.read_text()), payload)

    def latest(self, subject: str) -> RegisteredSchema:
        versions = sorted(self._folder.glob(f"{subject}-*.avsc"))
        if not versions:
            raise RegistryError(f"{self._folder} has no schema of {subject}")
        return RegisteredSchema(versions[-1].stem, "avro", versions[-1].read_text())

    def frame(self, body: FramedBody) -> bytes:
        return f"{body.schema.id}\n".encode() + body.payload


def connect() -> FolderRegistry:
    return FolderRegistry(Path("schemas").absolute())
