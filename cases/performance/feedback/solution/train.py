"""Scores essays by ridge regression on the words and on a few measures of the text."""

import re

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

SCORES = ["cohesion", "syntax", "vocabulary", "phraseology", "grammar", "conventions"]


def measures(texts: pd.Series) -> np.ndarray:
    """Counts that words alone do not tell: length, punctuation, capitals, repeats and long words, N x 14."""
    rows = []
    for text in texts:
        words = text.split()
        plain = [word.strip(".,").lower() for word in words]
        counts = [
            text.count("."), text.count(","), sum(word[0].isupper() for word in words),
            sum(one == two for one, two in zip(plain, plain[1:])), sum(len(word) > 8 for word in plain),
            sum(word.endswith("s") for word in plain), len(re.findall(r"\. [a-z]", text)),
        ]  # fmt: skip
        rows.append([np.log(len(words)), *counts, *(count / len(words) for count in counts[:6])])
    return np.array(rows)


def fit_and_predict(texts: pd.Series, scores: pd.DataFrame, *others: pd.Series) -> list[np.ndarray]:
    """Learns from texts and their six scores; returns the scores of each of the other texts, N x 6."""
    words = TfidfVectorizer(lowercase=False, token_pattern=r"\S+", sublinear_tf=True, min_df=3)
    scale = StandardScaler()
    known = sparse.hstack([words.fit_transform(texts), 0.1 * scale.fit_transform(measures(texts))]).tocsr()
    model = Ridge(alpha=1.0).fit(known, scores)
    return [
        np.clip(model.predict(sparse.hstack([words.transform(other), 0.1 * scale.transform(measures(other))])), 1, 5)
        for other in others
    ]


def mcrmse(truth: pd.DataFrame, predicted: np.ndarray) -> float:
    """The mean over the six columns of the root mean squared error."""
    return float(np.sqrt(((truth.to_numpy() - predicted) ** 2).mean(axis=0)).mean())


def main() -> None:
    """Validates on a tenth of the scored essays, then predicts the others."""
    train, test = pd.read_csv("train.csv"), pd.read_csv("test.csv")
    part, valid = train_test_split(train, test_size=0.1, random_state=42)
    on_part, on_valid = fit_and_predict(part["full_text"], part[SCORES], part["full_text"], valid["full_text"])
    print(f"MCRMSE on the training part:   {mcrmse(part[SCORES], on_part):.3f}")
    print(f"MCRMSE on the validation part: {mcrmse(valid[SCORES], on_valid):.3f}")
    made = pd.DataFrame(fit_and_predict(train["full_text"], train[SCORES], test["full_text"])[0], columns=SCORES)
    made.insert(0, "text_id", test["text_id"])
    made.round(3).to_csv("submission.csv", index=False)


if __name__ == "__main__":
    main()
