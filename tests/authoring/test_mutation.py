"""Mutants of Python text: each kind changes one place, what it makes compiles, and all other text stays."""

from __future__ import annotations

import ast

import pytest

from bench.authoring.mutation import KINDS, draw, mutants_of
from bench.authoring.source_edits import compiled
from tests.helpers.cells import ROOT

_FUNCTION = "def f(a, b):\n    {}\n"
_ROWS: dict[str, list[tuple[str, list[str]]]] = {
    "boundary_moved": [
        ("a < b", ["a <= b"]), ("(a) >= (b)", ["(a) > (b)"]), ("0 < a < b", ["0 <= a < b", "0 < a <= b"]),
    ],
    "comparison_flipped": [("a == b", ["a != b"]), ("a not in b", ["a in b"]), ("a is None", ["a is not None"])],
    "negated": [("not a", ["a"]), ("1 if a and b else 2", ["1 if not (a and b) else 2"]), ("1 if a < b else 2", [])],
    "condition_fixed": [
        ("1 if a else 2", ["1 if True else 2", "1 if False else 2"]),
        ("[x for x in a if x > b]", ["[x for x in a if True]", "[x for x in a if False]"]),
    ],
    "logic_exchanged": [("a and b or 1", ["a and b and 1", "a or b or 1"])],
    "arithmetic_exchanged": [
        ("(a + 1) * b", ["(a + 1) / b", "(a - 1) * b"]),
        ("a @ b.T", ["b.T @ a"]),
        ("(a + b) @ a", ["(a) @ (a + b)", "(a - b) @ a"]),
    ],
    "operand_dropped": [
        ("a / (b - 1)", ["a", "a / (b)"]),
        ("a * b", ["a", "b"]),
        ("2 ** (a + b)", ["2", "2 ** (a)", "2 ** (b)"]),
        ("a - 1 and b", ["(a - 1)", "b", "a and b"]),
    ],
    "sign_dropped": [("a ** -0.5", ["a ** 0.5"]), ("-(a + b)", ["(a + b)"])],
    "constant_off_by_one": [("a + 3", ["a + 4", "a + 2"]), ("a + 0.5", []), ("a is True", [])],
    "constant_scaled": [("a * 1e-05", ["a * 0.0001", "a * 1e-06"]), ("a + 3", ["a + 6"])],
    "constant_negated": [("a - 2", ["a - -2"]), ("a + 0", [])],
    "string_changed": [("a['key']", ["a['key_']"]), ("print('said')", [])],
    "flag_exchanged": [("sorted(a, reverse=True)", ["sorted(a, reverse=False)"])],
    "axis_changed": [
        ("a.sum(dim=-1)", ["a.sum(dim=0)", "a.sum(dim=-2)"]), ("a.sum(axis=0)", ["a.sum(axis=1)", "a.sum(axis=-1)"]),
    ],
    "dtype_changed": [("a.to(b.float64)", ["a.to(b.float32)"]), ("a.astype('int64')", ["a.astype('int32')"])],
    "slice_bound": [
        ("a[1:b + 1]", ["a[1 + 1:b + 1]", "a[:b + 1]", "a[1:(b + 1) - 1]", "a[1:]"]),
        ("a[:b]", ["a[:b - 1]", "a[:]", "a[1:b]"]),
    ],
    "range_bound": [
        ("range(b)", ["range(b - 1)", "range(b + 1)"]),
        ("range(1, b - a)", ["range(1, (b - a) - 1)", "range(1, (b - a) + 1)", "range(1 + 1, b - a)"]),
    ],
    "keyword_dropped": [
        ("f(a, b=1)", ["f(a)"]),
        ("f((a), b=(1),)", ["f((a),)"]),
        ("f(b=1, )", ["f()"]),
        ("f(b=1, a=2)", ["f(a=2)", "f(b=1)"]),
    ],
    "arguments_swapped": [("f(a, b + 1)", ["f(b + 1, a)"]), ("f(a, *b)", []), ("max(a, b)", [])],
    "elements_swapped": [("a, b + 1", ["b + 1, a"])],
    "wrapper_dropped": [("sorted(a, key=b)", ["a"]), ("abs(a - b) ** 2", ["(a - b) ** 2"]), ("Path(a)", [])],
    "method_dropped": [("a.detach().sum()", ["a.detach()", "a.sum()"]), ("a.T", ["a"])],
    "twin_exchanged": [("min(a, b)", ["max(a, b)"]), ("a.argmax(1)", ["a.argmin(1)"])],
    "seed_ignored": [("Random(a)", ["Random(0)"]), ("a.randn(b, generator=a)", ["a.randn(b)"]), ("Random(7)", [])],
    "return_earlier": [("a + b", ["b", "a"])],
}  # fmt: skip
"""By kind: what a function returns, and what it returns then."""
_WHOLE: dict[str, list[tuple[str, list[str]]]] = {
    "default_changed": [
        ("def f(a, b=3, *, c=None, d=g()): pass", [
            "def f(a, b=4, *, c=None, d=g()): pass",
            "def f(a, b=3, *, c=0, d=g()): pass",
            "def f(a, b=3, *, c=None, d=None): pass",
        ]),
    ],
    "parameters_swapped": [
        ("def f(self, a: int, b, c=1, d: str = 'x'): pass", [
            "def f(self, b, a: int, c=1, d: str = 'x'): pass", "def f(self, a: int, b, d: str = 'x', c=1): pass",
        ]),
    ],
    "accumulation_dropped": [("total += x", ["total = x"])],
    "arithmetic_exchanged": [("total += x", ["total -= x"])],
    "training_call_removed": [("optimizer.zero_grad()\nx = 1", ["pass\nx = 1"])],
    "call_removed": [("print(x)", ["pass"]), ("x = g()", [])],
    "assignment_removed": [
        ("self.x = 1", ["pass"]),
        ("def f(x):\n    x = x + 1\n    y = x\n    return y", ["def f(x):\n    pass\n    y = x\n    return y"]),
    ],
    "context_removed": [
        ("with torch.no_grad():\n    x()", ["if True:\n    x()"]),
        ("with (a(), b()):\n    x()", ["if (True):\n    x()"]),
        ("with open(a) as b:\n    x()", []),
    ],
    "decorator_removed": [("class A:\n    @one\n    @two(1)\n    def f(self): pass", [
        "class A:\n    @two(1)\n    def f(self): pass", "class A:\n    @one\n    def f(self): pass"])],
    "early_return": [
        ("def f(x):\n    y = x\n    y = y + 1\n    return y",
         ["def f(x):\n    y = x\n    return y\n    y = y + 1\n    return y"]),
        ("def f(x):\n    g(x)\n    h(x)", ["def f(x):\n    g(x)\n    return\n    h(x)"]),
    ],
    "loop_once": [
        ("for x in y:\n    g(x)\n    h(x)", ["for x in y:\n    g(x)\n    h(x)\n    break"]),
        ("for x in y: g(x)", ["for x in y: g(x); break"]),
    ],
    "jump_exchanged": [("while x:\n    y()\n    if z: break", ["while x:\n    y()\n    if z: continue"])],
    "raise_removed": [("if x: raise ValueError('no')", ["if x: pass"]), ("assert x, 'no'", ["pass"])],
    "handler_swallows": [("try:\n    x()\nexcept KeyError:\n    y()\n    raise", [
        "try:\n    x()\nexcept KeyError:\n    pass", "try:\n    x()\nexcept Exception:\n    y()\n    raise"])],
    "elements_swapped": [("a, b = g()", ["b, a = g()"]), ("a = 1, 2", ["a = 2, 1"])],
    "condition_fixed": [("while x:\n    y()", ["while False:\n    y()"])],
    "wrapper_dropped": [("import F\nx = F.relu(y)", ["import F\nx = y"])],
    "method_dropped": [("import torch\nx = torch.relu()", []), ("x = self.go()", []), ("x.go()", [])],
    "string_changed": [("raise ValueError('no')", []), ('"""Doc."""', [])],
}  # fmt: skip
"""By kind: whole files."""
_RETURNED = [(kind, _FUNCTION.format(f"return {old}"), [_FUNCTION.format(f"return {new}") for new in made])
             for kind, rows in _ROWS.items() for old, made in rows]  # fmt: skip
_FILES = [(kind, old, made) for kind, rows in _WHOLE.items() for old, made in rows]


def made(kind: str, text: str) -> list[str]:
    return [it.after.decode() for it in mutants_of({"a.py": text.encode()}, {}) if it.kind == kind]


@pytest.mark.parametrize(("kind", "text", "expected"), [*_RETURNED, *_FILES])
def test_what_a_kind_makes_of_a_small_source(
    kind: str, text: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of this kind alone: another one may make the same, and then it is the first that gives the name.
    monkeypatch.setattr("bench.authoring.mutation.KINDS", {kind: KINDS[kind]})
    assert made(kind, text) == expected


def test_every_kind_has_an_example() -> None:
    assert set(_ROWS) | set(_WHOLE) == set(KINDS)


@pytest.mark.parametrize(
    "case", ["mla_implementation", "nan_loss_debug", "shape_mismatch_train", "mcts_implementation"]
)
def test_mutants_of_a_real_solution_differ_in_one_place_and_compile_to_other_code(case: str) -> None:
    (folder,) = ROOT.glob(f"cases/*/{case}/solution")
    files = {path.name: path.read_bytes() for path in folder.glob("*.py")}
    found = mutants_of(files, {})
    assert len({it.kind for it in found}) > 15
    assert len({it.name for it in found}) == len(found)
    codes = [compiled(it.after) for it in found]
    assert None not in codes and len({*codes, *map(compiled, files.values())}) == len(codes) + len(files)
    for mutant in found:
        first, last = _lines_around(mutant.before, mutant.line)
        before, after = mutant.before.splitlines(), mutant.after.splitlines()
        assert before[: first - 1] == after[: first - 1], mutant.diff
        below = len(before) - last
        assert before[last:] == after[len(after) - below :], mutant.diff


def _lines_around(content: bytes, line: int) -> tuple[int, int]:
    """First and last line of the top-level statement, such as a class, that holds a line."""
    ends = [(it.lineno - len(getattr(it, "decorator_list", [])), it.end_lineno or 0) for it in ast.parse(content).body]
    (found,) = [it for it in ends if it[0] <= line <= it[1]]
    return found


def test_text_elsewhere_stays_as_it_is() -> None:
    """Comments, odd spacing, line ends and letters of several bytes; positions are those of bytes."""
    text = "# ä comment\r\ndef f( a ):   # é\r\n    ü = 'ß' ; b = a<3   # keep\r\n\r\n    return  b\r\n"
    (moved,) = made("boundary_moved", text)
    assert moved == text.replace("a<3", "a<=3")
    assert text.replace("    return  b", "    return b\r\n    return  b") not in made("early_return", text)
    once = "def f():\r\n    g()\r\n    h()\r\n"
    assert made("early_return", once) == ["def f():\r\n    g()\r\n    return\r\n    h()\r\n"]


@pytest.mark.parametrize("content", [b"def f(:\n", b"x = '\xff'\n", b"\xef\xbb\xbfx = 1\n", b"x = 1\ry = 2\n", b""])
def test_a_file_whose_positions_are_not_known_has_no_mutants(content: bytes) -> None:
    assert mutants_of({"a.py": content, "b.txt": b"x = 1\n"}, {}) == []


def test_what_computes_the_same_code_is_left_out() -> None:
    assert made("early_return", "def f():\n    x = 1\n    return x\n") == []
    assert made("handler_swallows", "try:\n    x()\nexcept Exception:\n    pass\n") == []
    assert made("arithmetic_exchanged", "x = 2 * 1\n") == ["x = 2 / 1\n"], "2 and 2.0 are not the same"


def test_types_docstrings_and_parts_of_formatted_strings_are_left_alone() -> None:
    text = 'def f(a: "T[3]") -> List[2]:\n    """Of 7."""\n    b: Tuple[4]\n    return f"{a + 1:.3f}"\n'
    assert {it.kind for it in mutants_of({"a.py": text.encode()}, {})} == {"return_earlier"}


def test_a_mutant_says_where_it_is_and_what_the_starter_gave() -> None:
    solution = (
        b"class A:\n    def f(self, x):\n        return x + 1\n\n    def g(self, x):\n        return x - 1\n\nY = 5\n"
    )
    found = mutants_of({"a.py": solution}, {"a.py": solution.replace(b"x + 1", b"None")})
    places = {(it.function, it.given, it.line) for it in found if it.kind == "constant_off_by_one"}
    assert places == {("A.f", False, 3), ("A.g", True, 6), ("", False, 8)}
    (flipped,) = [it for it in found if it.kind == "arithmetic_exchanged" and it.function == "A.g"]
    assert flipped.name == "arithmetic_exchanged_line_6"
    assert flipped.diff.splitlines()[:2] == ["--- a/a.py", "+++ b/a.py"]
    assert "-        return x - 1\n+        return x + 1" in flipped.diff


def test_a_draw_repeats_and_spreads_over_kinds_and_functions() -> None:
    (path,) = ROOT.glob("cases/*/shape_mismatch_train/solution/train.py")
    every = mutants_of({"train.py": path.read_bytes()}, {})
    drawn = draw(every, 60, "7")
    assert draw(mutants_of({"train.py": path.read_bytes()}, {}), 60, "7") == drawn
    assert draw(every, 20, "7") == drawn[:20], "more of them are the same ones, and others"
    assert draw(every, 60, "8") != drawn
    assert len({it.kind for it in draw(every, len({it.kind for it in every}), "7")}) == len({it.kind for it in every})
    assert len({it.function for it in drawn}) == len({it.function for it in every})
    assert sorted(it.name for it in draw(every, 10_000, "7")) == sorted(it.name for it in every)
