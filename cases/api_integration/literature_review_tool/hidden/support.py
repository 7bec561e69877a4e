"""Whether a sentence is supported by an abstract, copied out of it or said before: rules of words, no model."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from bench.casekit.texts import plain_text


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|\d+(?:\.\d+)?", plain_text(text).lower())


def joined(found: list[str], known: set[str]) -> list[str]:
    """The words, and parts of a known word as the whole that they are: what divides a word does not make it new."""
    whole, at, most = [], 0, max(map(len, known), default=1)
    while at < len(found):
        text, end = found[at], at + 1
        for last in range(at + 2, len(found) + 1):
            if len(longer := "".join(found[at:last])) > most:
                break
            if longer in known:
                text, end = longer, last
        whole.append(text)
        at = end
    return whole


def sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+", text.strip()) if words(part)]


_LITTLE = """
about after against also among because been before both could does down from have here into its just like made
make many more most much only other over paper propose proposes proposed results same show shows showed some
study such than thanks that their them then there these they this those through under used uses using very
well were what when where which while will with within work authors article method methods approach achieves
improves improve improving new rises raises tackles addresses present presents introduces
"""


def supported(sentence: str, abstract: str) -> bool:
    """Whether the abstract says it: all its numbers, and seven of ten of its longer words by five letters."""
    known = words(abstract)
    stems = {word[:5] for word in known}
    found = words(sentence)
    if any(word[0].isdigit() and word not in known for word in found):
        return False
    content = [word for word in found if len(word) > 3 and word not in _LITTLE.split()]
    return bool(content) and sum(word[:5] in stems for word in content) >= 0.7 * len(content)


def different(found: list[str]) -> list[str]:
    """Of the sentences those with a third of words that no earlier one has."""
    kept: list[str] = []
    known: set[str] = set()
    for sentence in found:
        own = set(joined(words(sentence), known))
        if len(own - known) * 3 >= len(own):
            kept.append(sentence)
        known |= own
    return kept


def copied(sentence: str, abstract: str, run: int = 10, least: int = 5) -> bool:
    """Whether the abstract has ten words in a row; or, of five and more, all but one, or but a tenth, in its order or
    in pieces."""
    within = words(abstract)
    of = joined(words(sentence), set(within))
    blocks = SequenceMatcher(None, of, within, autojunk=False).get_matching_blocks()
    own = min(len(of) - sum(block.size for block in blocks), _outside_pieces(of, within))
    return max(block.size for block in blocks) >= run or (len(of) >= least and own <= max(1, len(of) / 10))


def _outside_pieces(of: list[str], within: list[str], piece: int = 3) -> int:
    """How many words are in no three in a row that the abstract has: clauses that were turned round stay copies."""
    there = {tuple(within[at : at + piece]) for at in range(len(within) - piece + 1)}
    starts = [at for at in range(len(of) - piece + 1) if tuple(of[at : at + piece]) in there]
    return len(of) - len({start + more for start in starts for more in range(piece)})
