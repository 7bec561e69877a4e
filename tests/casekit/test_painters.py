"""What is painted has a signal: the better of two methods measures better, and a seed gives the same bytes."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.casekit import graphs, pictures, sentences, tables
from bench.casekit import series as time_series
from bench.casekit.data import stream
from bench.casekit.metrics import accuracy, auc, mae, rmse
from bench.casekit.picture_files import jpeg, png, read_cifar10, read_idx, write_cifar10, write_folders, write_idx

SEED = 2**127 + 12345


def generator(name: str) -> np.random.Generator:
    return np.random.default_rng(stream(SEED, name))


def nearest(train: Any, labels: Any, test: Any) -> Any:
    """Labels of the nearest neighbours by Euclidean distance."""
    left, right = (np.asarray(it, float).reshape(len(it), -1) for it in (train, test))
    distance = (right**2).sum(1)[:, None] - 2 * right @ left.T + (left**2).sum(1)
    return np.asarray(labels)[distance.argmin(1)]


def least_squares(train: Any, target: Any, test: Any, ridge: float = 1.0) -> Any:
    left, right = (np.column_stack([np.ones(len(it)), it]) for it in (train, test))
    return right @ np.linalg.solve(left.T @ left + ridge * np.eye(left.shape[1]), left.T @ target)


def silhouettes(painted: Any) -> Any:
    """How far each pixel is from the ground, in 8 x 8 cells around the centre of mass: shape without colour."""
    grey = (
        painted.astype(float) - np.median(painted.reshape(len(painted), -1, painted.shape[-1]), axis=1)[:, None, None]
    )
    strength = np.sqrt((grey**2).sum(-1))
    strength /= strength.max(axis=(1, 2), keepdims=True)
    side, found = strength.shape[1], []
    for one in strength:
        mass = np.where(one > 0.4, one, 0)
        rows, columns = np.mgrid[:side, :side]
        y, x = (round(float((axis * mass).sum() / mass.sum())) - side // 2 for axis in (rows, columns))
        found.append(np.roll(one, (-y, -x), axis=(0, 1)).reshape(8, side // 8, 8, side // 8).mean(axis=(1, 3)))
    return np.array(found)


def shape_accuracy(difficulty: float, side: int = 32) -> tuple[float, float]:
    """Of the nearest neighbour by silhouette, and by mean colour."""
    rng = generator(f"shapes {difficulty}")
    labels, other = rng.integers(0, 10, 1200), rng.integers(0, 10, 300)
    train, test = pictures.shapes(rng, labels, side, difficulty), pictures.shapes(rng, other, side, difficulty)
    by_shape = accuracy(other, nearest(silhouettes(train), labels, silhouettes(test)))
    return by_shape, accuracy(other, nearest(train.mean(axis=(1, 2)), labels, test.mean(axis=(1, 2))))


def test_shapes_are_told_by_shape_and_not_by_colour_and_less_well_where_they_are_harder() -> None:
    easy, colour = shape_accuracy(0.1)
    hard, _ = shape_accuracy(0.9)
    assert easy > 0.5 > 0.25 > colour
    assert easy > hard + 0.2


@pytest.mark.parametrize("side", [28, 32, 64])
def test_shapes_have_the_size_and_kind_that_was_asked_for(side: int) -> None:
    labels = np.arange(100)
    colour, grey = (pictures.shapes(generator("sizes"), labels, side, colour=it) for it in (True, False))
    assert (colour.shape, grey.shape) == ((100, side, side, 3), (100, side, side))
    assert colour.dtype == grey.dtype == np.uint8
    assert colour.tobytes() == pictures.shapes(generator("sizes"), labels, side).tobytes()
    assert colour.tobytes() != pictures.shapes(generator("other"), labels, side).tobytes()


def test_a_hundred_classes_differ_by_the_lines_on_the_shapes() -> None:
    rng = generator("lines")
    labels, other = 2 + 10 * rng.integers(0, 10, 400), 2 + 10 * rng.integers(0, 10, 200)
    spectra = [
        np.abs(np.fft.fft2(pictures.shapes(rng, it, 32, 0.0, colour=False) - 128.0))[:, :12, :]
        for it in (labels, other)
    ]
    assert accuracy(other, nearest(np.log1p(spectra[0]), labels, np.log1p(spectra[1]))) > 0.5


@pytest.mark.parametrize("wrong", [{"labels": [100]}, {"labels": [-1]}, {"side": 8}, {"difficulty": 1.5}])
def test_shapes_that_cannot_be_are_an_error_of_the_case(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="are needed"):
        pictures.shapes(generator("x"), **{"labels": [1], **wrong})


def test_digits_are_known_by_their_neighbours() -> None:
    rng = generator("digits")
    labels, other = rng.integers(0, 10, 700), rng.integers(0, 10, 150)
    train, test = pictures.digits(rng, labels), pictures.digits(rng, other)
    assert accuracy(other, nearest(train, labels, test)) > 0.75
    assert accuracy(other, nearest(train.mean(axis=(1, 2)), labels, test.mean(axis=(1, 2)))) < 0.4


def test_pictures_come_back_from_their_files(tmp_path: Path) -> None:
    rng = generator("files")
    labels = rng.integers(0, 10, 12)
    painted, digits = pictures.shapes(rng, labels), pictures.digits(rng, labels)
    write_cifar10(tmp_path, (painted, labels), (painted[:3], labels[:3]), pictures.SHAPES)
    batches = [read_cifar10(tmp_path / "cifar-10-batches-bin" / f"data_batch_{number}.bin") for number in range(1, 6)]
    assert np.array_equal(np.concatenate([batch[0] for batch in batches]), painted)
    assert np.concatenate([batch[1] for batch in batches]).tolist() == labels.tolist()
    assert read_cifar10(tmp_path / "cifar-10-batches-bin" / "test_batch.bin")[1].tolist() == labels[:3].tolist()
    for packed, name in ((False, "train-images-idx3-ubyte"), (True, "train-images-idx3-ubyte.gz")):
        write_idx(tmp_path, "train", digits, labels, packed)
        assert np.array_equal(read_idx(tmp_path / name), digits)
    assert read_idx(tmp_path / "train-labels-idx1-ubyte").tolist() == labels.tolist()
    assert len(write_folders(tmp_path / "png", painted, labels.tolist(), pictures.SHAPES)) == len(labels)
    photo = jpeg(painted[0].astype(np.int64))
    assert (photo[:2], photo[-2:], struct.pack(">HH", 8 * 32, 8 * 32) in photo) == (b"\xff\xd8", b"\xff\xd9", True)
    assert (tmp_path / "png" / pictures.SHAPES[labels[4]] / "00004.png").read_bytes() == png(painted[4])


NUMERIC = ["Age", "RoomService", "Spa", "VRDeck", "FoodCourt", "Mall"]
CATEGORIES = {"HomePlanet": ["Earth", "Mars", "Europa"], "Deck": list("ABCDEFG")}


def design(columns: tables.Columns, products: bool) -> Any:
    """Columns as numbers: gaps are zero, categories one column each, and products of neighbours where asked for."""
    numbers = [np.nan_to_num(columns[name]) for name in NUMERIC]
    levels = [columns[name] == level for name, known in CATEGORIES.items() for level in known]
    extra = [a * b for a, b in itertools.pairwise(numbers)] + [it**2 for it in numbers] if products else []
    extra += [a * b for a, b in zip(numbers, numbers[2:], strict=False)] if products else []
    return np.column_stack([*numbers, *levels, *extra]).astype(float)


def test_a_better_model_of_a_table_measures_better() -> None:
    world = tables.World.draw(generator("world 3"), NUMERIC, CATEGORIES)
    rng = generator("rows")
    columns, score = world.rows(rng, 3000)
    prices = tables.amounts(rng, score, typical=180_000)
    taken = tables.yes_or_no(rng, score)
    assert 0.02 < np.isnan(columns["Spa"]).mean() < 0.06
    errors = [mae(prices[2000:], np.full(1000, np.median(prices[:2000])))]
    areas = []
    for products in (False, True):
        matrix = design(columns, products)
        logs = least_squares(matrix[:2000], np.log(prices[:2000]), matrix[2000:])
        errors.append(mae(prices[2000:], np.exp(logs)))
        areas.append(auc(taken[2000:].astype(int), least_squares(matrix[:2000], taken[:2000], matrix[2000:])))
    assert errors[0] > 1.15 * errors[1]
    assert errors[1] > 1.05 * errors[2]
    assert 0.7 < areas[0] < areas[1]
    assert 0.45 < taken.mean() < 0.55


def test_a_table_is_written_with_its_gaps() -> None:
    columns = {"Id": np.array([1, 2]), "Age": np.array([31.0, np.nan]), "Deck": np.array(["A, b", None], object)}
    assert tables.to_csv(columns) == 'Id,Age,Deck\n1,31.0,"A, b"\n2,,\n'
    assert tables.scaled(np.array([-9.0, 0.0, np.nan, 9.0]), 0, 80)[[0, 1, 3]].tolist() == [0, 40, 80]


def words_of(texts: list[str], pairs: bool, known: dict[str, int]) -> Any:
    counts = np.zeros((len(texts), len(known)))
    for row, text in enumerate(texts):
        for it in grams(text, pairs):
            if it in known:
                counts[row, known[it]] += 1
    return counts


def test_pairs_of_words_tell_an_opinion_better_than_words() -> None:
    texts, labels = sentences.opinions(generator("opinions"), 3000)
    found = []
    for pairs in (False, True):
        known = {it: place for place, it in enumerate(sorted({w for t in texts for w in grams(t, pairs)}))}
        matrix = words_of(texts, pairs, known)
        guessed = least_squares(matrix[:2400], np.array(labels[:2400]), matrix[2400:], ridge=0.1) > 0.5
        found.append(accuracy(labels[2400:], guessed.astype(int)))
    assert 0.6 < found[0] < found[1] - 0.05
    assert found[1] > 0.95
    assert 0.45 < np.mean(labels) < 0.55


def grams(text: str, pairs: bool) -> list[str]:
    words = text.split()
    return words + ([f"{a} {b}" for a, b in itertools.pairwise(words)] if pairs else [])


def test_the_word_before_tells_a_name_better_than_the_name() -> None:
    found = sentences.tagged(generator("tags"), 3000)
    assert {tag for _, tags in found for tag in tags} == set(sentences.TAGS)
    scores = []
    for context in (False, True):
        rows = [
            (
                (word, words[place - 1] if context and place else "", words[place + 1 : place + 2] if context else ""),
                tag,
            )
            for words, tags in found
            for place, (word, tag) in enumerate(zip(words, tags, strict=True))
        ]
        seen: dict[str, dict[str, int]] = {}
        for key, tag in rows[:10_000]:
            seen.setdefault(str(key), {}).setdefault(tag, 0)
            seen[str(key)][tag] += 1
        guessed = [max(it, key=it.__getitem__) if (it := seen.get(str(key))) else "O" for key, _ in rows[10_000:]]
        scores.append(accuracy([tag for _, tag in rows[10_000:]], guessed))
    assert 0.8 < scores[0] < scores[1]


def test_only_what_belongs_to_the_right_person_answers_a_question() -> None:
    asked = sentences.questions(generator("questions"), 1000)
    truth = [it.answer for it in asked]
    assert 0.45 < np.mean(truth) < 0.55
    assert accuracy(truth, [it.question.split()[-2] in it.passage for it in asked]) < 0.6
    assert accuracy(truth, [it.question.split()[-2] == it.span for it in asked]) == 1


def test_a_forecast_with_seasons_and_memory_is_better() -> None:
    drawn = time_series.series(generator("series"), 20, 120)
    assert drawn.values.shape == drawn.known.shape == (20, 120)
    truth, before = drawn.values[:, 108:].ravel(), drawn.values[:, :108]
    mean = np.repeat(before.mean(axis=1), 12)
    season = drawn.values[:, 96:108].ravel()
    rows = [
        (drawn.values[one, t - 12], drawn.values[one, t - 1], drawn.known[one, t], drawn.known[one, t - 12],
         drawn.values[one, t - 13], drawn.known[one, t - 1], drawn.known[one, t - 13])
        for one in range(20) for t in range(13, 120)
    ]  # fmt: skip
    matrix = np.array(rows).reshape(20, 107, -1)
    fitted = least_squares(
        matrix[:, :95].reshape(-1, 7), drawn.values[:, 13:108].ravel(), matrix[:, 95:].reshape(-1, 7)
    )
    errors = [rmse(truth, guess) for guess in (mean, season, fitted)]
    assert errors[0] > 1.2 * errors[1] > 1.2 * 1.2 * errors[2]
    with pytest.raises(ValueError, match="three periods"):
        time_series.series(generator("series"), 1, 10)


def test_neighbours_tell_a_node_better_than_its_words() -> None:
    drawn = graphs.citations(generator("graph"), nodes=1500)
    assert (drawn.edges[:, 1] < drawn.edges[:, 0]).all()
    assert len(np.unique(drawn.edges, axis=0)) == len(drawn.edges)
    own = drawn.features.astype(float)
    around = own.copy()
    for left, right in ((0, 1), (1, 0)):
        np.add.at(around, drawn.edges[:, left], own[drawn.edges[:, right]])
    degree = 1 + np.bincount(drawn.edges.ravel(), minlength=len(own))
    old, late = drawn.years < 2014, drawn.years >= 2014
    found = []
    for features in (own, around / degree[:, None]):
        centres = np.stack([features[old & (drawn.labels == name)].mean(axis=0) for name in range(7)])
        found.append(accuracy(drawn.labels[late], nearest(centres, np.arange(7), features[late])))
    assert 0.4 < found[0] < found[1] - 0.1
