"""The packaged sample corpus: fictional documents in the real formats, and the generator that wrote them.

What belongs here: `documents/` (a mirror folder), `corpus_manifest.json`, `facts.json`, the hand-written `bank/`, and
the code that makes the first three from the last. Nothing outside this package may depend on how the documents came
to be.
"""
