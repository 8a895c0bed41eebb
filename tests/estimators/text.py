"""Text: counts and weights of words and characters, and pipelines that begin with them."""

from __future__ import annotations

from typing import Any

from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from .data import plain_sentences, sentences
from .entry import Entry, Table, classifier, transformer

# Words as scikit-learn's default pattern has them, in the syntax of onnxruntime's RE2.
WORDS: dict[str, Any] = {"tokenexp": r"[\p{L}\p{N}_]{2,}", "locale": "C"}


def text(vectorizer: Any, **options: Any) -> Entry:
    """A vectorizer of sentences."""
    return transformer(lambda: vectorizer, sentences, options=WORDS | options)


TABLE: Table = {
    "count": text(CountVectorizer()),
    "count-bigrams": text(CountVectorizer(ngram_range=(1, 2))),
    "count-binary": text(CountVectorizer(binary=True)),
    "count-case": text(CountVectorizer(lowercase=False)),
    "count-stop-words": text(CountVectorizer(stop_words=["the", "of", "is", "it"])),
    "count-english": text(CountVectorizer(stop_words="english")),
    "count-pattern": text(CountVectorizer(token_pattern=r"[a-zA-Z]+"), tokenexp=None),
    "count-characters": text(CountVectorizer(analyzer="char", ngram_range=(1, 2)), tokenexp=None),
    "tfidf": text(TfidfVectorizer()),
    "tfidf-trigrams": text(TfidfVectorizer(ngram_range=(1, 3), min_df=2)),
    "tfidf-l1": text(TfidfVectorizer(norm="l1")),
    "tfidf-logarithmic": transformer(
        lambda: TfidfVectorizer(sublinear_tf=True),
        plain_sentences,
        options=WORDS,
        wrong="it takes log(1 + count) where the estimator takes 1 + log(count)",
    ),
    "tfidf-no-norm": text(TfidfVectorizer(norm=None, smooth_idf=False)),
    "tfidf-characters": text(TfidfVectorizer(analyzer="char", ngram_range=(2, 3)), tokenexp=None),
    "tfidf-transformer": transformer(
        lambda: make_pipeline(CountVectorizer(), TfidfTransformer()), sentences, inner={CountVectorizer: WORDS}
    ),
    "text-logistic": classifier(
        lambda: make_pipeline(TfidfVectorizer(), LogisticRegression()), sentences, inner={TfidfVectorizer: WORDS}
    ),
    "text-bayes": classifier(
        lambda: make_pipeline(CountVectorizer(ngram_range=(1, 2)), MultinomialNB()),
        sentences,
        inner={CountVectorizer: WORDS},
    ),
}
