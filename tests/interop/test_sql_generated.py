"""2,000 generated SQL92 expressions: RocketMQ's own filter and ours accept, refuse and evaluate each of them alike."""

import subprocess
from pathlib import Path

import pytest

from bolide.dispatch.sql92 import EvaluationError, Sql92Error, compile_sql92
from proof.interop.java_artefacts import BROKER_VERSION, OLD_BROKER_VERSION, jars, source_folder, tool
from proof.interop.matrix import PROGRAM, marked
from tests.dispatch.sql92_texts import expressions, property_maps

pytestmark = pytest.mark.java

ORACLE = source_folder() / "SqlOracle.java"


def answers_of_java(version: str, folder: Path, texts: list[str], maps: list[dict[str, str]]) -> list[str]:
    """A line for each text, by RocketMQ's classes of a version."""
    given, asked, answered = folder / "properties", folder / "expressions", folder / "answers"
    lines = ("".join(f"{name}\x01{value}\x02" for name, value in properties.items()) for properties in maps)
    given.write_text("\n".join(lines), encoding="utf-8")
    asked.write_text("\n".join(texts), encoding="utf-8")
    command = [tool("java"), "-Dfile.encoding=UTF-8", "-cp", f"{jars(version)}/*", str(ORACLE)]
    done = subprocess.run(
        [*command, str(given), str(asked), str(answered)], capture_output=True, timeout=480, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return answered.read_text(encoding="utf-8").splitlines()


def answer_of_ours(version: str, text: str, maps: list[dict[str, str]]) -> str:
    """The same line by our filter."""
    try:
        compiled = compile_sql92(text, version)
    except Sql92Error:
        return "refused"
    letters = ""
    for properties in maps:
        try:
            letters += {True: "t", False: "f", None: "n"}[compiled.evaluate(properties)]
        except EvaluationError:
            letters += "e"
    return letters


@marked(PROGRAM, "SQL92, 2,000 generated expressions")
@pytest.mark.parametrize("version", [OLD_BROKER_VERSION, BROKER_VERSION])
def test_ours_is_javas(version: str, tmp_path: Path) -> None:
    texts, maps = expressions(), property_maps()
    java = answers_of_java(version, tmp_path, texts, maps)
    ours = [answer_of_ours(version[:3], text, maps) for text in texts]
    wrong = [f"{t!r}: Java {j}, ours {o}" for t, j, o in zip(texts, java, ours, strict=True) if j != o]
    assert not wrong, f"{len(wrong)} of {len(texts)}:\n" + "\n".join(wrong[:40])
    taken = sum(answer != "refused" for answer in java)
    # Neither kind is rare, and every outcome occurs, or this would prove little.
    assert 500 < taken < 1500
    assert set("".join(answer for answer in java if answer != "refused")) == set("tfne")
