"""Measures bits a byte of hidden text by the probabilities that score.py gives each next word.

Every number that decides is worked out here. What follows a place must not change what is said of it: the hidden text
is scored twice, the second time with other words behind a secret place of each row. A run of train.py on the text of
another language shows that the model is learned from text, and not brought along.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from speech import WORDS, Language, bits, blocks, files, new_language, pair_bits, vocabulary

from bench.casekit.programs import left_alone
from bench.judge import Workspace, array, check, once, run_command

BAR, TARGET = 0.9, 0.82  # of the bits of counting pairs
LEARN, TRY, BLOCKS, LENGTH = 60_000, 6_000, 64, 64
SAME, SUM = 1e-4, 1e-3  # of a probability; of the sum over all words
APART = 0.03  # of the bits of counting pairs: trainings of the reference are up to 0.008 apart
RUN_S, SCORE_S, MOST_BYTES = 60, 20, 20 << 20
GONE = ["babylm_data", "output"]  # where text is scored, but for what is put there


@check(weight=10, required=True)
def probabilities_sum_to_one(ws: Workspace) -> None:
    """score.py gives every place of the hidden text a probability for each word; they sum to 1."""
    _scored(ws)


@check(weight=15, required=True)
def later_words_change_nothing(ws: Workspace) -> None:
    """The probabilities at a place are the same, whatever stands later, in other rows or in babylm_data/."""
    numbers, _ = _hidden(ws)
    rng = ws.numpy_rng("later words")
    _same_before(ws, numbers, _scored(ws), rng, {}, GONE[:1])


@check(weight=20)
def close_to_the_language(ws: Workspace) -> float:
    """Credit for bits a byte of the hidden text: from 0 at counting pairs to 1 at 82 % of its bits."""
    measured, counted = _test_bits(ws)
    return ws.scale(measured, floor=counted, target=TARGET * counted)


@check(weight=25, required=True)
def ten_percent_better(ws: Workspace) -> None:
    """The hidden text takes more than 10 % fewer bits a byte than by counting pairs of words."""
    measured, counted = _test_bits(ws)
    assert measured < BAR * counted, f"{measured:.4f} bits a byte, wanted less than {BAR * counted:.4f}"


@check(weight=30, required=True)
def program_learns_another_language(ws: Workspace) -> None:
    """train.py, run on text of another language, leads to probabilities under the same rules and the same bar."""
    numbers, chances, learned, share = _relearned(ws)
    assert share < BAR, f"{share:.4f} of the bits of counting pairs in another language, wanted less than {BAR}"
    _same_before(ws, numbers, chances, ws.numpy_rng("later words there"), learned, GONE)
    apart = float(np.abs(_score(ws, numbers[:1, :1], learned, GONE) - chances[:1, :1]).max())
    assert apart <= SAME, f"the probabilities of a row of one place are off by {apart:.2g} where it is alone"


@check(weight=5, required=True)
def output_is_the_programs(ws: Workspace) -> None:
    """output/ does not predict its language much better than what train.py writes where the judge runs it."""
    measured, counted = _test_bits(ws)
    ahead = _relearned(ws)[3] - measured / counted
    assert ahead <= APART, f"output/ takes {ahead:.3f} less of the bits of counting pairs than what train.py writes"


@once
def _relearned(ws: Workspace) -> tuple[Any, Any, dict[str, Any], float]:
    """Of train.py on another language: the text, its probabilities, the files, the share of the bits of pairs."""
    rng = ws.numpy_rng("another language")
    language = new_language(rng)
    learn = files(rng, language, "babylm_10M", "train", LEARN)
    inputs = learn | files(rng, language, "babylm_dev", "dev", TRY) | {"vocab.txt": vocabulary(language)}
    numbers = blocks(rng, BLOCKS, LENGTH, language)
    ran = ws.run(["python", "train.py"], inputs=inputs, remove=["output"], timeout=RUN_S).ok()
    left_alone(ran, inputs)
    elsewhere = [path for path in ran.files() if not path.startswith("output/") and "__pycache__/" not in path]
    kept = {path: ws.sha256(path) for path in ws.files()} | {path: ran.sha256(path) for path in inputs}
    odd = [path for path in elsewhere if kept.get(path) != ran.sha256(path)]
    assert not odd, f"`python train.py` writes {odd[0][:80]}, and is to write to output/ alone"
    paths = [path for path in ran.files() if path.startswith("output/")]
    assert paths, "`python train.py` writes nothing to output/"
    size = sum(ran.path(path).stat().st_size for path in paths)
    assert size <= MOST_BYTES, f"output/ has {size} bytes, wanted at most {MOST_BYTES}"
    learned = {path: ran.bytes(path, max_mb=20) for path in paths} | {"vocab.txt": inputs["vocab.txt"]}
    chances = _score(ws, numbers, learned, GONE)
    measured, counted = bits(chances, numbers, language), pair_bits(learn, numbers, language)
    ws.metric("bits_another_language", measured, "bits a byte")
    return numbers, chances, learned, measured / counted


def _score(ws: Workspace, numbers: Any, inputs: dict[str, Any], gone: Sequence[str] = ()) -> Any:
    """Probabilities of the word behind each place, N x length x words, by score.py in a folder without `gone`."""
    out = io.BytesIO()
    np.save(out, numbers.astype(np.int64))
    data = out.getvalue()
    if gone:
        # Under other names than those of task.md.
        name, given, removed = "chances.npy", {**inputs, "words.npy": data}, [*gone, "tokens.npy", "chances.npy"]
        ran = ws.run(["python", "score.py", "words.npy", name], inputs=given, remove=removed, timeout=SCORE_S).ok()
    else:
        name, given = "probabilities.npy", {**inputs, "tokens.npy": data}
        ran = run_command(
            ws, "python score.py tokens.npy probabilities.npy", outputs=[name], inputs=given, timeout=SCORE_S
        )
    made = ran.npy(name, max_mb=50)
    assert made.dtype == np.float32, f"{name} is {made.dtype}, wanted float32"
    found = array(made, shape=(*numbers.shape, WORDS))
    assert found.min() >= 0, f"{name} has a probability of {found.min():.3g}"
    off = float(np.abs(found.sum(axis=2) - 1).max())
    assert off <= SUM, f"{name}: the probabilities of a place sum to {1 + off:.4f} or {1 - off:.4f}"
    return found


def _same_before(
    ws: Workspace, numbers: Any, chances: Any, rng: np.random.Generator, inputs: dict[str, Any], gone: Sequence[str]
) -> None:
    """Score the rows again, each with the end of another row from a place on; of the first language most of them twice.

    Every place but the last one is in some row the last that stays: what follows it there are other words. The second
    time rows are shorter, too.
    """
    count, length = numbers.shape
    kept = rng.permutation(np.arange(count) % (length - 1))[:, None] >= np.arange(length)
    changed, order = np.where(kept, numbers, np.roll(numbers, 1, axis=0)[:, ::-1]), rng.permutation(count)
    fewer = order[: count - rng.integers(1, 8)], length - int(rng.integers(1, 20))
    for rows, end in ((order, length), *([] if inputs else [fewer])):
        again = _score(ws, changed[rows, :end], inputs, gone)
        apart = np.abs(again - chances[rows, :end]).max(axis=2) * kept[rows, :end]
        odd = int((apart > SAME).any(axis=1).sum())
        assert not odd, f"in {odd} of {len(rows)} rows a probability changes with what stands later or in other rows"


@once
def _hidden(ws: Workspace) -> tuple[Any, Language]:
    """The hidden text, N x length, and its language."""
    words = ws.original("vocab.txt").read_text().split()
    with np.load(ws.hidden("test.npz").path) as file:
        return file["numbers"], Language(words, file["order"])


@once
def _scored(ws: Workspace) -> Any:
    return _score(ws, _hidden(ws)[0], {})


@once
def _test_bits(ws: Workspace) -> tuple[float, float]:
    """Of the agent's probabilities, and of counting pairs in the same sources."""
    numbers, language = _hidden(ws)
    known = ws.original("babylm_data/babylm_10M")
    learn = {path.name: path.read_text() for path in sorted(known.iterdir())}
    measured, counted = bits(_scored(ws), numbers, language), pair_bits(learn, numbers, language)
    told = np.take_along_axis(_scored(ws)[:, :-1], numbers[:, 1:, None], axis=2)
    ws.metric("bits_per_byte", measured, "bits a byte")
    ws.metric("bits_per_byte_of_pairs", counted, "bits a byte")
    ws.metric("perplexity", float(np.exp(-np.log(np.maximum(told, 1e-9)).mean())))
    return measured, counted
