"""Hostile documents for every parser of outside input, and what each of them did with how many.

`MLDB_FUZZ=nightly` takes 10,000 random examples a parser; otherwise 100, always the same ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.helpers.cells import ROOT, python

_TRIFLES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("ci", max_examples=100, derandomize=True, deadline=None, suppress_health_check=_TRIFLES)
settings.register_profile(
    "nightly", max_examples=10_000, deadline=None, suppress_health_check=_TRIFLES, print_blob=True
)
fuzzed = settings.get_profile(os.environ.get("MLDB_FUZZ") or "ci")
"""The mode, as a decorator of a test."""

_LONGEST_MESSAGE = 2000

# --- values ----------------------------------------------------------------------------------------------------------

RAW: dict[str, str] = {
    "@@nan@@": "NaN",
    "@@infinity@@": "-Infinity",
    "@@overflow@@": "1e999",
    "@@digits@@": "9" * 5000,
    "@@half@@": '"\\ud800"',
    "@@deep@@": "[" * 300 + "]" * 300,
    "@@deeper@@": '{"a":' * 1500 + "1" + "}" * 1500,
    "@@open@@": "[" * 3000,
    "@@long@@": '"' + "x" * 50_000 + '"',
    "@@many@@": "[" + "[]," * 5000 + "[]]",
    "@@twice@@": '{"a": 1, "a": 2}',
}
"""JSON, and what looks like it, that no serialiser writes: stands in a text where its name stood in a document."""

_LEAVES: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**53 + 1, 2**63, -(2**64), 10**30, 10**400, 0.0, -0.0, 0.5, -1.5, 1e300,
    5e-324,
    "", "x", "0", "null", "\0", "\n", "a\nb", "\x1b[2J", "\u2028", "\x85", "\ufeff", "caf\u00e9", "\U0001f600",
    "\u0663",
    "../x", "/etc/passwd", "a/b", "x" * 300, "{agent}", "@@", "1e5", "2026-13-45T00:00:00Z", "2026-02-30T25:61:00Z",
    [], {}, [[]], [None], [{}], {"": None}, {"type": {}}, {"a": {"b": [1]}}, ["x"] * 20, list(range(50)),
]  # fmt: skip

LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(_LEAVES),
    st.sampled_from(sorted(RAW)),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=10),
)
JUNK: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8
)  # fmt: skip

_ALIKE: dict[type, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(0, 100) | st.sampled_from([it for it in _LEAVES if type(it) is int]),
    float: st.floats(0, 100) | st.sampled_from([it for it in _LEAVES if type(it) is float]),
    str: st.text(max_size=10) | st.sampled_from([it for it in _LEAVES if type(it) is str] + ["@@long@@", "@@half@@"]),
}
_CHANGES = ["leaf", "leaf", "alike", "alike", "alike", "junk", "drop", "double", "wrap", "swap", "text", "rename"]

# --- documents -------------------------------------------------------------------------------------------------------


class Originals(tuple[Any, ...]):
    """Valid documents, too long to be shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} documents>"


@st.composite
def mutated(draw: st.DrawFn, originals: Originals) -> Any:
    """A valid document with one to three of its parts replaced, dropped, doubled, wrapped, swapped or renamed."""
    document = _copy(originals[draw(st.integers(0, len(originals) - 1))])
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        holder: list[Any] = [document]
        places = list(_places(holder))
        container, key = places[draw(st.integers(0, len(places) - 1))]
        value = container[key]
        kind = draw(st.sampled_from(_CHANGES))
        if kind == "leaf":
            container[key] = _copy(draw(LEAVES))
        elif kind == "alike":
            container[key] = draw(_ALIKE.get(type(value), st.just(value)))
        elif kind == "junk":
            container[key] = _copy(draw(JUNK))
        elif kind == "drop" and container is not holder:
            del container[key]
        elif kind == "double":
            _add(container, draw(LEAVES), _copy(value))
        elif kind == "wrap":
            container[key] = _copy([[value], {"a": value}, [value, value], {"text": value}][draw(st.integers(0, 3))])
        elif kind == "swap":
            other, name = places[draw(st.integers(0, len(places) - 1))]
            container[key] = _copy(other[name])
        elif kind == "text":
            container[key] = json.dumps(value)
        elif kind == "rename" and isinstance(container, dict):
            container[_key(draw(LEAVES))] = container.pop(key)
        document = holder[0]
    return document


def _copy(value: Any) -> Any:
    """Nothing may be part of two examples, or of itself."""
    return json.loads(json.dumps(value))


def _places(root: Any) -> Iterator[tuple[Any, Any]]:
    pending = [root]
    while pending:
        container = pending.pop()
        for key, value in enumerate(container) if isinstance(container, list) else list(container.items()):
            yield container, key
            if isinstance(value, list | dict):
                pending.append(value)


def _add(container: Any, name: Any, value: Any) -> None:
    if isinstance(container, list):
        container.append(value)
    else:
        container[_key(name)] = value


def _key(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def as_json(document: Any) -> bytes:
    return _with_raw(json.dumps(document)).encode()


def as_yaml(document: Any) -> bytes:
    """Block style, where JSON, which is YAML too, has the flow style."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    try:
        text = str(yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True))
    except (ValueError, yaml.YAMLError):
        return as_json(document)
    return _with_raw(text).encode("utf-8", "replace")


def _with_raw(text: str) -> str:
    for name, raw in RAW.items():
        if name in text:
            text = text.replace(f'"{name}"', raw).replace(f"'{name}'", raw)
    return text


FRAGMENTS = [
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\r", b"\n", b"\n\n", b"\xe2\x80\xa8",
    b"\xc2\x85",
    b'"', b"'", b"\\", b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"null", b"-", b"9" * 5000, b"1e999", b"NaN",
    b"[" * 3000, b'{"a":' * 3000, b"\x1b[2J",
]  # fmt: skip
YAML_FRAGMENTS = [
    *FRAGMENTS, b"&a ", b"*a", b"\n<<: *a\n", b"&a [*a]", b"!!int x", b"!!float ''", b"!!bool x", b"!!timestamp x",
    b"!!python/name:os.system ", b"!!binary x", b"!!set ", b"!!omap ", b"2026-13-45", b"0b_", b"1:1:1.5", b"? ", b"- ",
    b"--- ", b"\n---\n", b"\n...\n", b"%YAML 9.9\n", b"\t", b"#", b"|\n", b">-\n", b"=", b"<<: ", b"~", b":1" * 200,
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, contents: st.SearchStrategy[bytes], language: str = "json") -> bytes:
    """Bytes with one to three pieces cut out, doubled, overwritten or put in."""
    fragments = YAML_FRAGMENTS if language == "yaml" else FRAGMENTS
    data = draw(contents)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 40)))
        kind = draw(st.sampled_from(["insert", "insert", "cut", "delete", "double", "overwrite"]))
        if kind == "insert":
            data = data[:start] + fragments[draw(st.integers(0, len(fragments) - 1))] + data[start:]
        elif kind == "cut":
            data = data[:start]
        elif kind == "delete":
            data = data[:start] + data[end:]
        elif kind == "double":
            data = data[:end] + data[start:end] + data[end:]
        else:
            data = data[:start] + draw(st.binary(max_size=4)) + data[end:]
    return data


@st.composite
def _often(draw: st.DrawFn, common: st.SearchStrategy[bytes], *rare: st.SearchStrategy[bytes]) -> bytes:
    """Seven in ten of `common`, so that parsers are not only seen refusing."""
    return draw((common, *rare)[max(draw(st.integers(0, len(rare) + 3 * len(rare))) - 3 * len(rare), 0)])


def json_bytes(*originals: Any) -> st.SearchStrategy[bytes]:
    """Documents like `originals`, and unlike them."""
    changed = mutated(Originals(originals)).map(as_json)
    whole = st.sampled_from([as_json(original) for original in originals])
    return _often(changed, damaged(whole), damaged(changed), JUNK.map(as_json), st.binary())


def yaml_bytes(*originals: Any) -> st.SearchStrategy[bytes]:
    """As `json_bytes`, in both styles of YAML."""
    documents = mutated(Originals(originals))
    block = documents.map(as_yaml)
    whole = st.sampled_from([as_yaml(original) for original in originals])
    damage = (damaged(whole, "yaml"), damaged(block, "yaml"))
    return _often(block, documents.map(as_json), *damage, JUNK.map(as_yaml), st.binary())


# --- what became of them ---------------------------------------------------------------------------------------------


@dataclass(repr=False)
class Tally:
    """What one parser did with its examples."""

    examples: int = 0
    refused: int = 0
    slowest_s: float = 0.0

    @contextmanager
    def example(self, *refusals: type[BaseException]) -> Iterator[None]:
        """A block that ends well or with one clear error of these kinds; any other error is a crash."""
        self.examples += 1
        began = time.monotonic()
        try:
            yield
        except refusals as refusal:
            self.refused += 1
            assert_clear(str(refusal))
        finally:
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def row(self) -> dict[str, float]:
        return {"examples": self.examples, "refused": self.refused, "slowest_s": round(self.slowest_s, 3)}


def assert_clear(message: str) -> None:
    """One line for a person: short, without control characters, and possible to print."""
    assert message.strip(), "an error that says nothing"
    assert len(message) <= _LONGEST_MESSAGE, f"{len(message)} characters: {message[:200]}"
    assert message.isprintable(), f"not one printable line: {message[:300]!r}"
    message.encode("utf-8")


def report(rows: Mapping[str, tuple[dict[str, float], bool]]) -> Iterator[str]:
    """The table of parsers: examples, how many were refused, the slowest, crashes."""
    yield f"{'parser':<58} {'examples':>9} {'refused':>9} {'slowest s':>10} {'crashes':>8}"
    for name, (row, passed) in sorted(rows.items()):
        cells = f"{row['examples']:>9.0f} {row['refused']:>9.0f} {row['slowest_s']:>10.3f}"
        yield f"{name:<58} {cells} {0 if passed else 'FOUND':>8}"
    whole = sum(row["examples"] for row, _ in rows.values())
    yield f"{len(rows)} parsers, {whole:.0f} examples, {sum(not passed for _, passed in rows.values())} with crashes"


# --- bombs -----------------------------------------------------------------------------------------------------------


def in_a_small_machine(code: str, *arguments: str, memory_mb: int = 1024, seconds: float = 60) -> str:
    """What Python text prints that has no more address space than this, and so much time; it must end well."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({memory_mb << 20}, {memory_mb << 20}))\n"
    done = subprocess.run(
        python("-c", limit + code, *arguments),
        cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr[-1500:])
    return done.stdout


Parse = Callable[[bytes], object]
