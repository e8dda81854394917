"""Counting words: a document, then questions on how often its frequent words occur in it.

The document comes before the chat and is learned as in pretraining; of the chat, the answers are.
The seed's common word extraction (facts.md 4.4).
"""

import random
from typing import TYPE_CHECKING

from posttrain.data.longcontext import words
from posttrain.data.longcontext.conversation import Row, conversation
from posttrain.data.longcontext.sources import Document

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat

QUESTIONS = {"hard": 10, "easy": 5}
FREQUENT = 15
"""Words are drawn from that many most frequent ones; of equally frequent ones the first count."""

PHRASINGS = (
    ('How often does "{word}" occur in the document?', '"{word}" occurs {count}x.'),
    ('Count the word "{word}" in the text above.', 'Count of "{word}": {count}.'),
    ('What is the number of times "{word}" is used?', "{count}"),
    ('Go through the document once more: how many "{word}" are there?', "There are {count}."),
    ('Give the frequency of "{word}", whatever its case.', 'Frequency of "{word}": {count}.'),
    ('In the document, the word "{word}" comes up how many times?', "Number of times: {count}."),
    ('Tell me how many occurrences of "{word}" you find.', "I find {count}."),
    ('"{word}": how many in all?', "In all: {count}."),
    ('I need the exact count of "{word}" in what you just read.', "The exact count is {count}."),
    ('How many times did the author write "{word}"?', '"{word}" was written {count}x.'),
)


def word_counts(chat: "ChatFormat", document: Document, draw: random.Random) -> Row | str:
    """The row of a document; `few_words` if it has fewer frequent words than questions."""
    found = words.counted(document.text).most_common(FREQUENT)
    if len(found) < QUESTIONS[document.level]:
        return "few_words"
    turns = []
    for word, count in draw.sample(found, QUESTIONS[document.level]):
        question, answer = draw.choice(PHRASINGS)
        turns.append((question.format(word=word), answer.format(word=word, count=count)))
    return conversation(turns, text=document.text) | {"task": "word_counts"}
