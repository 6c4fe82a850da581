"""A project for `spark-pipelines run`: bronze, silver and gold tables of a topic, as a starting point."""

from __future__ import annotations

import string
from collections.abc import Mapping
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from bolide.spark.errors import OptionError

SPEC: Final = "spark-pipeline.yml"
TRANSFORMATIONS: Final = ("bronze.py", "silver.py", "gold.py")


def write_template(folder: str, namesrv: str, topic: str, body_schema: str, storage: str | None = None) -> list[str]:
    """Write the project into a new or empty folder, and return the files.

    `body_schema` is Spark's DDL of the JSON in the bodies, e.g. ``id BIGINT, amount DOUBLE``. Raises `OptionError` if
    an argument is invalid, the folder is not empty, or PySpark is older than 4.1.
    """
    if find_spec("pyspark") is not None and find_spec("pyspark.pipelines") is None:
        raise OptionError("this PySpark has no declarative pipelines: install PySpark 4.1 or newer for this project")
    target = Path(folder).resolve()
    if target.exists() and any(target.iterdir()):
        raise OptionError(f"{folder} is not empty: name a new folder for the project")
    values: Mapping[str, str] = {
        "name": target.name,
        "storage": storage or (target / "storage").as_uri(),
        "namesrv": namesrv,
        "topic": topic,
        "schema": body_schema,
    }
    for name, value in values.items():
        if not value.isprintable() or '"' in value or "\\" in value:
            raise OptionError(f"the {name} {value!r} contains characters that YAML does not allow: remove them")
    home = resources.files("bolide.spark") / "templates"
    (target / "transformations").mkdir(parents=True)
    written = [target / SPEC]
    written[0].write_text(string.Template((home / SPEC).read_text("utf-8")).substitute(values), "utf-8")
    for name in TRANSFORMATIONS:
        path = target / "transformations" / name
        path.write_text((home / "transformations" / name).read_text("utf-8"), "utf-8")
        written.append(path)
    return [str(path) for path in written]
