"""Text as a reader sees it: for measures of words, of copies and of whether two texts differ."""

from __future__ import annotations

import re
import unicodedata

_DROPPED = frozenset({"Mn", "Me", "Cc", "Cf", "Cs", "Co", "Cn"})
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")
# Letters and a symbol by their categories, and blank to the eye.
_FILLERS = frozenset("\u115f\u1160\u3164\u2800")
# Cyrillic, Greek and Latin letters that nobody tells from those of ASCII.
_LOOK_ALIKE = str.maketrans(
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408"
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u04cf\u0501\u051b\u051d"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03b1\u03b9\u03bd\u03bf\u03c1\u03c5\u0131\u0237\u0251\u0261",
    "ABEKMHOPCTYXSIJ"
    "aeopcyxsijhldqw"
    "ABEZHIKMNOPTYX"
    "aivopuijag",
)  # fmt: skip


def plain_text(text: str) -> str:
    """The text by which a check counts, compares or finds words, and never one that it shows or compares exactly.

    Accents are gone, however they are written, and all that takes no place: marks, controls, formats and fillers.
    Letters in another form or script that look like ASCII's are ASCII's; white space and all else stay.
    """
    if text.isascii() and not _CONTROL.search(text):
        return text
    apart = unicodedata.normalize("NFKD", text)
    kept = (it for it in apart if it.isspace() or not (unicodedata.category(it) in _DROPPED or it in _FILLERS))
    return unicodedata.normalize("NFC", "".join(kept)).translate(_LOOK_ALIKE)
