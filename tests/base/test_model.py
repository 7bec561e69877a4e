"""A settings file is right, or there is one line that says where it is wrong and what to do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench.base.errors import UserError
from bench.base.model import Model, read_yaml, validate
from tests.helpers.cells import ROOT, python


class Inner(Model):
    count: int


class Outer(Model):
    name: str
    inner: Inner | None = None
    many: list[Inner] = []


def read(tmp_path: Path, text: str | bytes) -> Outer:
    path = tmp_path / "x.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_yaml(path, Outer)


def test_a_sound_document_is_read_and_cannot_be_changed(tmp_path: Path) -> None:
    found = read(tmp_path, "name: caf\u00e9\nmany: [{count: 1}]\n")
    assert (found.name, found.many[0].count) == ("caf\u00e9", 1)
    with pytest.raises(ValueError, match="frozen"):
        found.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nam: x\n", "field `nam`: unknown field; did you mean `name`\\? \\(known: inner, many, name\\)"),
        (
            "name: x\ninner: {coun: 1}\n",
            "field `inner.coun`: unknown field; did you mean `count`\\? \\(known: count\\)",
        ),
        ("name: x\nmany: [{x: 1}]\n", "field `many.0.x`: unknown field; remove it .*\\(known: count\\)"),
        ("name: x\nother: 1\n", "`other`: unknown field"),
        ("name: x\ninner: {count: one}\n", "`inner.count`"),
        ("name: x\nmany: [{count: 1}, {count: x}]\n", "`many.1.count`"),
        ("name: [1]\nmany: 3\n", r"and 1 more"),
        ("name: 2026.11\n", "`name`"),
        ("- a\n", "must be a mapping, but is a list"),
        ("", "must be a mapping, but is empty"),
        ("name: [unclosed\n", "is not YAML: line 2: .*fix the syntax"),
        ("name: x\ninner: a: b\n", "is not YAML: line 2: mapping values are not allowed"),
        ("name: 2026-02-30\n", "is not YAML: a date, number or tag is not valid"),
        ("name: !!python/object/apply:os.system [true]\n", "line 1 has a tag .*write the value without it"),
        ("name: *absent\n", "line 1 has an anchor or an alias"),
        ("many:\n- &one {count: 1}\n- {count: 2}\n", "line 2 has an anchor or an alias .* \\(write the value out"),
        (b"name: \xff\n", "cannot be read"),
        ("name: a\x00b\n", "is not YAML"),
        ("name: x\nname: y\n", "line 2 repeats the key `name`"),
        ("name: x\nmany:\n- {count: 1, count: 2}\n", "repeats the key `count`"),
        ("name: x\ninner: &i {count: 1}\nmany: [*i, *i]\n", "line 2 has an anchor or an alias"),
        ("name: x\ninner:\n  <<: *i\n", "line 3 has an anchor or an alias"),
    ],
)
def test_every_fault_is_one_line_with_its_place(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        read(tmp_path, text)
    assert str(tmp_path / "x.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["[", "{a: ", "- "])
@pytest.mark.parametrize("depth", [1_000, 200_000])
def test_a_deep_document_is_refused_and_does_not_end_the_process(tmp_path: Path, text: str, depth: int) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text(text * min(depth, 900_000 // len(text)))
    code = "import sys; from pathlib import Path; from bench.formats.suite import Suite\n" \
           "from bench.base.model import read_yaml\n" \
           "from bench.base.errors import UserError\n" \
           "try: read_yaml(Path(sys.argv[1]), Suite)\nexcept UserError as error: print(error)"  # fmt: skip
    done = subprocess.run(python("-c", code, str(path)), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-300:]
    assert "deep.yaml" in done.stdout


def test_a_document_too_large_or_absent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="larger than"):
        read(tmp_path, "name: " + "x" * 1_000_001)
    with pytest.raises(UserError, match="no such file"):
        read_yaml(tmp_path / "absent.yaml", Outer)
    with pytest.raises(UserError, match="cannot be read"):
        read_yaml(tmp_path, Outer)


def test_data_from_elsewhere_names_its_source() -> None:
    with pytest.raises(UserError, match=r"^the request: field `name`"):
        validate({}, Outer, where="the request")
