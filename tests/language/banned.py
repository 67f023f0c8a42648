"""Phrases that the project does not use, each with what to write in its place.

The language of log lines, errors, documentation and names is plain technical English: subject,
verb, object; present tense; Kafka's terms. A phrase is on this list when nearly every use of it is
wrong. `python -m tests.language.banned [PATH ...]` prints the findings below those paths.
"""

import re
import sys
from collections.abc import Iterator

from tests.language.texts import Text, tree_texts

# (pattern, write this instead)
PHRASES: tuple[tuple[str, str], ...] = (
    (r"told|tells?|telling", "report, send, return, log, say"),
    (r"(go|goes|going|gone|went) on", "resume, continue"),
    (r"goes over to", "upgrades to"),
    (r"(?<!there )(is|are|was|were) no (?!longer|more than|less|fewer|greater|later|earlier)",
     "is not a"),
    (r"(?<!there )(is|are|was|were) (?-i:none)", "is not one, is missing"),
    (r"(not )?to be had", "available, unavailable"),
    (r"lets? be", "ignore"),
    (r"puts? (out|away)", "remove, fence, quarantine"),
    (r"any more", "any longer, no longer"),
    (r"no more(?! than)", "no longer"),
    (r"(do|does|will|would) (not )?do(?= as|[.,;:)]|$)", "is enough, is valid"),
    (r"who is there", "brokers and their state"),
    (r"lies|lay|lain", "is, is stored"),
    (r"stands?(?! (in )?for\b)(?![- ]?alone| by\b)|stood", "is, is written, is listed"),
    (r"by which", "that, with"),
    (r"of (its|their|one's|our|my|your) own", "its own X"),
    (r"one's", "your, its"),
    (r"nobody|somebody|whoever|anybody|everybody", "no client, a client, the caller"),
    (r"whatever", "any, regardless of"),
    (r"asked", "requested"),
    (r"anew", "again"),
    (r"becom(e|es|ing|ame) of", "happens to"),
    (r"(mis)?judg(e|es|ed|ing|ement|ements|ment)", "validate, check, decide"),
    (r"(so|that|this) (many|much)(?! (longer|more|less|faster))", "the given number"),
    (r"(left|leaves?) alone", "unchanged, ignored"),
    (r"heard? (of|from)|hears of", "receive from"),
    (r"comes? about|came about", "is made, results"),
    (r"in vain", "without effect"),
    (r"for ever", "forever, without limit"),
    (r"but for", "except"),
    (r"(all|nothing|anything) but", "only, everything except"),
    (r"likewise", "also, in the same way"),
    (r"in (its|their) turn", "in order"),
    (r"takes? (its|their|the) place", "replaces"),
    (r"had (better|best)", "should"),
    (r"besides", "in addition to"),
    (r"the like", "and similar"),
    (r"merely", "only"),
    (r"strangers?", "unknown client"),
    (r"knows? (of|nothing|no|none)", "has, does not have"),
    (r"there (is|are) to", "must be"),
    (r"(is|are|was|were) to (be|do)", "must be"),
    (r"wish(es|ed)?", "request, setting"),
    (r"held to", "compared with, limited to"),
    (r"hitherto|thereby|therein|thereof|whereof|whereby|wherein|hence|thus|upon|whence|ere|nought",
     "a plain word"),
    (r"without a word", "silently"),
    (r"the (doing|having|being|knowing|telling) of", "a verb"),
    (r"the same of", "the same for"),
    (r"(at|in) hand", "current"),
    (r"under way", "in progress"),
    (r"comes? (of|to its end|to nothing)|came (of|to its end)", "ends, results"),
    (r"(is|are|was|were) (said|known|meant|thought) of", "has"),
    (r"ha(s|ve|d|ving) (it|them|him|one|itself|themselves) \w+(ed|en|made|put|sent|read)",
     "a plain verb"),
    (r"…", "complete the sentence"),
)  # fmt: skip
# How a docstring must not begin: it starts with a verb or a noun phrase.
OPENINGS = (
    (r"Whether", "True when"),
    (r"(What|Who|Whose|Whom|Where|Letting|Those|One that|How)", "Return ..., or a noun"),
    (r"(Give|Gives|Tell|Tells|Say|Says|Ask|Asks)", "Return"),
)
# A test is named test_<unit>_<condition>_<outcome>.
TEST_NAMES = (
    (r"test (what|who|whoever|whose|those|one|it|they|that|this|nothing|nobody)",
     "test_<unit>_<condition>_<outcome>"),
)  # fmt: skip

# One pass over a text that has no phrase, which nearly all texts are.
_ANY_PHRASE = re.compile(rf"\b(?:{'|'.join(p for p, _ in PHRASES if p[-1] != '…')})|…", re.I)
_PHRASES = [(re.compile(rf"\b(?:{p})\b" if p[-1].isalpha() or p[-1] == ")" else p, re.I), instead)
            for p, instead in PHRASES]  # fmt: skip
_OPENINGS = [(re.compile(rf"(?:{p})\b"), instead) for p, instead in OPENINGS]
_TEST_NAMES = [(re.compile(rf"(?:{p})\b"), instead) for p, instead in TEST_NAMES]


def findings(text: Text) -> Iterator[tuple[str, str]]:
    """Yield (phrase, what to write instead) for each banned phrase in `text`."""
    for pattern, instead in _PHRASES if _ANY_PHRASE.search(text.text) else ():
        for match in pattern.finditer(text.text):
            yield match[0], instead
    openings = {"docstring": _OPENINGS, "test name": _TEST_NAMES}.get(text.kind, [])
    for pattern, instead in openings:
        if match := pattern.match(text.text):
            yield match[0], instead


def main() -> None:
    """Print each finding with its place, then the number per room."""
    counts: dict[str, int] = {}
    for text in tree_texts(rooms=tuple(sys.argv[1:])):
        for phrase, instead in findings(text):
            counts[text.room] = counts.get(text.room, 0) + 1
            where = text.text.find(phrase)
            shown = text.text[max(0, where - 60) : where + 60]
            print(f"{text.file}:{text.line}: {text.kind}: '{phrase}' -> {instead}: {shown}")
    print(dict(sorted(counts.items())), "total", sum(counts.values()))


if __name__ == "__main__":
    main()
