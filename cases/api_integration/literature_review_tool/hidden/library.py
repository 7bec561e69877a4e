"""An invented library: topics with many names, and abstracts, of which three to six belong to each query.

So few that a list of ten shows what stands first.

A topic is a phenomenon in a field. Authors call either by one of four names, and a query uses the first: its words
find some of what belongs to it, and much that has only one half of it.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace
from typing import Any

PHENOMENA = (
    "hallucination|confabulation|unfaithful generation|fabricated content",
    "catastrophic forgetting|loss of earlier tasks|continual interference|memory erosion",
    "label noise|corrupted annotations|wrong targets|unreliable supervision",
    "distribution shift|domain drift|changing test conditions|covariate change",
    "adversarial examples|malicious perturbations|crafted inputs|evasion attacks",
    "reward hacking|specification gaming|proxy exploitation|misaligned objectives",
    "class imbalance|long-tailed categories|rare labels|skewed frequencies",
    "overconfidence|poor calibration|inflated certainty|misjudged probabilities",
    "mode collapse|lost diversity|repetitive samples|degenerate output",
    "shortcut learning|spurious cues|clever Hans behaviour|superficial correlations",
    "data leakage|test contamination|benchmark exposure|memorised evaluation",
    "vanishing gradients|blocked signals|dead backpropagation|stalled derivatives",
    "missing modalities|absent sensors|incomplete channels|dropped views",
    "oversmoothing|blurred node states|indistinct embeddings|feature homogenisation",
    "exposure bias|train-test mismatch of decoding|self-fed errors|teacher forcing gap",
    "membership inference|training-set disclosure|record exposure attacks|presence tests",
)
FIELDS = (
    "language models|text generators|neural writers|autoregressive transformers",
    "medical imaging|radiology scans|clinical pictures|diagnostic images",
    "speech recognition|spoken transcription|acoustic decoding|voice interfaces",
    "molecular graphs|chemical structures|compound networks|drug candidates",
    "robot control|manipulation policies|embodied agents|motor skills",
    "recommender systems|item ranking|personal suggestions|collaborative filtering",
    "satellite pictures|remote sensing|earth observation|aerial views",
    "machine translation|cross-lingual conversion|bilingual decoding|interlingual systems",
    "time series|temporal signals|sequential measurements|sensor streams",
    "source code|program synthesis|software repositories|developer assistants",
)
METHODS = (
    "contrastive probe", "sparse adapter", "twin encoder", "retrieval cache", "spectral penalty", "gated ensemble",
    "diffusion prior", "curriculum sampler", "energy score", "prototype bank",
)  # fmt: skip
STEPS = (
    "calibration step",
    "warm restart",
    "pruned vocabulary",
    "second reader",
    "temperature schedule",
    "hard negatives",
)
METRICS = ("accuracy", "recall", "precision", "F1", "coverage", "agreement")
INVENTED = (
    "Its authors were awarded a prize at a conference in Lisbon.",
    "The software has been downloaded forty thousand times since spring.",
    "A hospital in Oslo has used it every day for a year.",
    "Three independent teams later failed to reproduce the finding.",
)
QUESTIONS = ("how to deal with {} in {}", "-how to detect {} in {}", "What causes {} (and its harm) in {}?",
             "recent work on {}  &\n{}", " methods against {} — for {} ", "measuring {}: the case of {}",
             'is "{}" in {} 100% avoidable?', "Mu\u0308ller's question of {} + {}")  # fmt: skip
"""With what programs like to tidy up: blanks, a line break, what looks like an option, an accent of its own."""
FAULTS = ("a number", "none", "an invention", "none")


@dataclass(frozen=True)
class Paper:
    """One entry of the library; `told` is what the language model says of it, of which a sentence may be invented."""

    id: str
    title: str
    abstract: str
    authors: tuple[str, ...]
    category: str
    date: str
    topic: tuple[int, int]
    told: tuple[str, ...]
    version: int


@dataclass(frozen=True)
class Library:
    """Papers, and the queries with the topic of each."""

    papers: list[Paper]
    queries: dict[str, tuple[int, int]]

    def plain(self) -> dict[str, Any]:
        return {"papers": [asdict(it) for it in self.papers], "queries": self.queries}

    @staticmethod
    def of(plain: dict[str, Any]) -> Library:
        papers = [
            Paper(**it | {"topic": tuple(it["topic"]), "told": tuple(it["told"]), "authors": tuple(it["authors"])})
            for it in plain["papers"]
        ]
        return Library(papers, {query: (topic[0], topic[1]) for query, topic in plain["queries"].items()})

    def relevant(self, query: str) -> list[str]:
        return [paper.id for paper in self.papers if paper.topic == self.queries[query]]


def draw_library(rng: random.Random, phenomena: list[int], queries: int) -> Library:
    """A library of about 50 papers a query over these phenomena; other phases get others, and so other names."""
    fields = rng.sample(range(len(FIELDS)), queries)
    chosen = rng.sample(phenomena, queries - 1)
    # The last asks for the first one's phenomenon in another field: ratings for the one are wrong for the other.
    asked = list(zip([*chosen, chosen[0]], fields, strict=True))
    topics = [topic for topic in asked for _ in range(rng.randint(3, 6))]
    for phenomenon, field in asked:
        topics += [(phenomenon, rng.choice(_elsewhere(phenomenon, asked))) for _ in range(25)]
        topics += [(it, field) for it in rng.choices([it for it in phenomena if (it, field) not in asked], k=12)]
    names: set[str] = set()
    numbers = rng.sample(range(10_000, 99_999), 2 * len(topics))
    papers = [_paper(rng, topic, numbers.pop(), names, FAULTS[at % 4]) for at, topic in enumerate(topics)]
    # These have all words of what is asked for, and are about something else.
    for at, topic in enumerate(topic for topic in asked for _ in range(10)):
        other = (topic[0], rng.choice(_elsewhere(topic[0], asked)))
        paper = _paper(rng, other, numbers.pop(), names, FAULTS[at % 4])
        aside = f" Unlike work on {_called(rng, topic)[0]} in {_called(rng, topic)[1]}, it needs no access to the data."
        papers.append(replace(paper, abstract=paper.abstract + aside))
    rng.shuffle(papers)
    forms = rng.sample(QUESTIONS, queries)
    named = {_question(form, topic): topic for form, topic in zip(forms, asked, strict=True)}
    return Library(papers, named)


def _elsewhere(phenomenon: int, asked: list[tuple[int, int]]) -> list[int]:
    """Fields in which nobody asks for this phenomenon."""
    return [it for it in range(len(FIELDS)) if (phenomenon, it) not in asked]


def _question(form: str, topic: tuple[int, int]) -> str:
    return form.format(PHENOMENA[topic[0]].split("|")[0], FIELDS[topic[1]].split("|")[0])


def _paper(rng: random.Random, topic: tuple[int, int], number: int, names: set[str], fault: str) -> Paper:
    phenomenon, field = _called(rng, topic)
    name, benchmark = _name(rng, names), _name(rng, names)
    method, step, metric = rng.choice(METHODS), rng.choice(STEPS), rng.choice(METRICS)
    gain, hours = f"{rng.randint(1011, 9899) / 100:.2f}", rng.randint(12, 99)
    titles = (f"{name}: a {method} against {phenomenon}", f"{name} & {field}, a naïve view",
              f"Rethinking {phenomenon} with {name}",
              f"{name}: {method}s for better {field} where training, tuning and testing share a machine")  # fmt: skip
    abstract = (
        f"Work on {field} suffers from {phenomenon}, which existing remedies treat badly or at great cost. "
        f"We present {name}, whose {method} examines every intermediate result before the system accepts it. "
        f"On the public benchmark {benchmark} it raises {metric} by {gain} points over the strongest earlier baseline. "
        f"Ablations attribute most of that gain to the {step} rather than to the size of the network. "
        f"Training needs {hours} hours on a single accelerator, and very long inputs remain difficult."
    )
    told = [
        f"{name} uses a {method} against {phenomenon} in {field}.",
        f"On {benchmark}, {metric} exceeds the strongest baseline by {gain} points, most of it by the {step}.",
    ]
    if fault != "none":
        # A part of the right number, with a point: to compare digits, or whole numbers alone, does not show it.
        wrong = f"On {benchmark} the strongest baseline is only {gain[1:]} points away."
        told.insert(rng.randint(0, 2), wrong if fault == "a number" else rng.choice(INVENTED))
    authors = tuple(f"{_word(rng)} {_word(rng)}" for _ in range(rng.randint(1, 4)))
    date = f"20{rng.randint(18, 24)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
    place = f"{date[2:4]}{date[5:7]}.{number}"
    return Paper(
        place,
        rng.choice(titles),
        abstract,
        authors,
        rng.choice(("cs.LG", "cs.CL", "cs.AI")),
        date,
        topic,
        tuple(told),
        rng.randint(1, 12),
    )


def _called(rng: random.Random, topic: tuple[int, int]) -> tuple[str, str]:
    """The names that some author gives to phenomenon and field: the one that queries use in half of all cases."""
    phenomenon, field = PHENOMENA[topic[0]].split("|"), FIELDS[topic[1]].split("|")
    return rng.choices(phenomenon, (50, 20, 15, 15))[0], rng.choices(field, (50, 20, 15, 15))[0]


def _word(rng: random.Random) -> str:
    return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(3)).capitalize()


def _name(rng: random.Random, taken: set[str]) -> str:
    while (name := _word(rng) + rng.choice(("Net", "r", "x", "n"))) in taken:
        pass
    taken.add(name)
    return name
