"""The body of a fictional RFC, from its sheet and the bank of sentence patterns.

What belongs here: which sections there are and what each says. How they are set is `rfc_layout`'s matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zeroth_assets.sample.chooser import Chooser
from zeroth_assets.sample.patterns import fill
from zeroth_assets.sample.rfc_figures import bit_diagram, error_table, message_table, state_figure, timer_table, trace
from zeroth_assets.sample.rfc_layout import Node
from zeroth_assets.sample.rfc_sheet import RFC_PATTERNS, Sheet, context, situation


class Prose:
    """Writes one RFC. `volume` scales how much the generator adds to what the sheet says."""

    def __init__(self, sheet: Sheet, seed: str, volume: float = 1.0) -> None:
        self.sheet = sheet
        self.chooser = Chooser(seed)
        self.volume = volume
        self.nodes: list[Node] = []
        self._counters: list[int] = []
        self._own_fields: list[str] = []

    def heading(self, level: int, title: str) -> None:
        """Open a section; numbers count by themselves."""
        self._counters = [*self._counters[:level], *[0] * (level - len(self._counters))]
        self._counters[level - 1] += 1
        number = ".".join(str(n) for n in self._counters) + "."
        self.nodes.append(Node("heading", title, level, number))

    def appendix(self, letter: str, title: str) -> None:
        """Open an appendix."""
        self.nodes.append(Node("heading", title, 1, f"Appendix {letter}."))

    def text(self, *texts: str) -> None:
        """Add paragraphs."""
        self.nodes.extend(Node("text", text) for text in texts)

    def verbatim(self, text: str) -> None:
        """Add lines that keep their breaks."""
        self.nodes.append(Node("verbatim", text))

    def sentences(self, pool: str, count: int, **fixed: str) -> str:
        """`count` sentences of one pool, with slots drawn anew for each."""
        said = []
        for _ in range(max(1, count)):
            pattern = self.chooser.deal(pool, RFC_PATTERNS[pool])
            values = context(self.sheet, self.chooser, **fixed)
            if self._own_fields and "field" not in fixed:
                values["field"], values["field2"] = self.chooser.shuffled(self._own_fields)[:2]
            said.append(fill(pattern, self.chooser, values))
        if len(said) > 2 and self.chooser.below(3) == 0:
            said[1] = _glued(fill(self.chooser.deal("glue", RFC_PATTERNS["glue"]), self.chooser, {}), said[1])
        return _tidy(" ".join(said))

    def grown(self, low: int, high: int) -> int:
        """A count between two bounds, scaled by the volume."""
        return max(1, round(self.chooser.between(low, high) * self.volume))

    def write(self, changes: Sequence[str] = (), predecessor: int | None = None) -> tuple[Node, ...]:
        """All sections, in order."""
        self._introduction()
        self._design()
        self._states()
        self._messages()
        self._fields()
        self._timers()
        self._errors()
        self._operations()
        self._security()
        self._registries()
        if predecessor is not None:
            self.heading(1, f"Changes since RFC {predecessor}")
            self.text(*changes)
        self._references(predecessor)
        self._appendices()
        return tuple(self.nodes)

    def _introduction(self) -> None:
        self.heading(1, "Introduction")
        self.text(*self.sheet.intro)
        self.heading(2, "Requirements Language")
        self.text(
            'The key words "MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "RECOMMENDED" and "MAY" are used as RFC 90000 '
            "defines them, and only where they are in capitals."
        )
        self.heading(2, "Terms")
        self.nodes.extend(Node("item", term) for term in self.sheet.terms)

    def _design(self) -> None:
        self.heading(1, "Overview")
        self.heading(2, "Parties")
        names = ", ".join(f"the {role}" for role in self.sheet.roles[:-1]) + f" and the {self.sheet.roles[-1]}"
        self.text(
            f"{self.sheet.abbrev} knows three parties: {names}. What they share is the "
            f"{self.sheet.unit}, and every message concerns exactly one."
        )
        self.text(self.sentences("compare.text", self.grown(3, 5)))
        self.heading(2, self.sheet.design_title)
        self.text(*self.sheet.design)
        self.heading(2, "Field Trial")
        self.text(self.sentences("trial.text", self.grown(4, 5)), self.sentences("trial.text", self.grown(3, 4)))

    def _states(self) -> None:
        names = self.chooser.pick(RFC_PATTERNS["states"]).split(",")
        fixed = {f"s{i}": name for i, name in enumerate(names)}
        fixed |= {"states": "four", "statelist": ", ".join(names[:-1]) + f" and {names[-1]}"}
        self.heading(1, f"States of a {self.sheet.unit.title()}")
        first, *rest = RFC_PATTERNS["state.text"]
        said = [fill(p, self.chooser, context(self.sheet, self.chooser) | fixed) for p in rest]
        opening = fill(first, self.chooser, fixed | {"unit": self.sheet.unit})
        self.text(_tidy(" ".join([opening, *said[:3]])))
        self.verbatim(state_figure(names, [m for m, _ in self.sheet.messages]))
        self.text(_tidy(" ".join(said[3:])))

    def _messages(self) -> None:
        self.heading(1, "Messages")
        self.text(
            f"Every {self.sheet.abbrev} message begins with the same eight octets: a version, a type, a length and a "
            "check value. The types are listed below."
        )
        self.verbatim(message_table(self.sheet))
        for index, (name, purpose) in enumerate(self.sheet.messages):
            own = self.chooser.shuffled(self.sheet.fields)[: self.chooser.between(3, 5)]
            roles = self.sheet.roles
            sender, receiver, third = (roles[(index + turn) % len(roles)] for turn in range(3))
            fixed = {"msg": name, "purpose": purpose, "a": sender, "b": receiver, "c": third}
            self._own_fields = [f"{field} field" for field, _, _ in own]
            self.heading(2, name)
            self.text(self.sentences("msg.open", 1, **fixed) + " " + self.sentences("msg.interact", 1, **fixed))
            self.verbatim(bit_diagram(index + 1, own))
            self.heading(3, f"Sending {name}")
            for _ in range(self.grown(2, 3)):
                self.text(self.sentences("msg.send", self.chooser.between(2, 4), **fixed))
            self.heading(3, f"Receiving {name}")
            for _ in range(self.grown(2, 3)):
                self.text(self.sentences("msg.receive", self.chooser.between(2, 4), **fixed))
            self.text(
                self.sentences("msg.reason", self.chooser.between(1, 3), **fixed)
                + " "
                + self.sentences("msg.interact", 1, **fixed)
            )

        self._own_fields = []

    def _fields(self) -> None:
        self.heading(1, "Fields")
        for name, bits, meaning in self.sheet.fields:
            self.heading(2, name)
            fixed = {"field": f"{name} field", "bits": str(bits), "meaning": meaning}
            opening = fill(self.chooser.deal("field.define", RFC_PATTERNS["field.define"]), self.chooser, fixed)
            self.text(_tidy(f"{opening} {self.sentences('field.detail', self.grown(3, 4), **fixed)}"))

    def _timers(self) -> None:
        self.heading(1, "Timers")
        self.verbatim(timer_table(self.sheet))
        for name, value, purpose in self.sheet.timers:
            self.heading(2, name)
            fixed = {"timer": name, "tval": value, "tdo": purpose}
            self.text(
                self.sentences("timer.open", 1, **fixed) + " " + self.sentences("timer.detail", 2, **fixed),
                self.sentences("timer.detail", self.grown(2, 4), **fixed),
            )

    def _errors(self) -> None:
        self.heading(1, "Errors")
        self.verbatim(error_table(self.sheet))
        for index, (name, condition) in enumerate(self.sheet.errors):
            fixed = {"error": name, "cond": condition, "code": str(17 + 3 * index)}
            opening = fill(
                self.chooser.deal("error.open", RFC_PATTERNS["error.open"]),
                self.chooser,
                context(self.sheet, self.chooser, **fixed),
            )
            self.heading(2, name)
            self.text(_tidy(f"{opening} {self.sentences('error.detail', self.grown(3, 4), error=name)}"))

    def _operations(self) -> None:
        self.heading(1, "Operational Considerations")
        self.text(self.sentences("ops.text", self.grown(3, 4)), self.sentences("ops.text", self.grown(3, 4)))
        for title, story in self.sheet.hazards:
            self.heading(2, title)
            fixed = {"hazard": title, "lowhazard": situation(title)}
            self.text(f"{story} {self.sentences('hazard.detail', self.grown(2, 3), **fixed)}")
            self.text(self.sentences("hazard.detail", self.grown(2, 3), **fixed))
        self.text(self.sentences("ops.text", self.grown(3, 4)))

    def _security(self) -> None:
        self.heading(1, "Security Considerations")
        for title, story in self.sheet.threats:
            self.heading(2, title)
            self.text(f"{story} {self.sentences('threat.detail', self.grown(3, 4))}")
            self.text(self.sentences("threat.detail", self.grown(2, 3)))

    def _registries(self) -> None:
        self.heading(1, "Registry Considerations")
        self.text(
            f"The Registry of Invented Numbers keeps three tables for {self.sheet.abbrev}: message types, error codes "
            f"and the units of each field. A new message type needs a specification and the consent of one of the "
            f"authors; error codes from {self.chooser.between(100, 140)} to 199 are given to whoever asks first."
        )

    def _references(self, predecessor: int | None) -> None:
        self.heading(1, "References")
        entries = [
            '[RFC90000] Nobody, A., "Key Words for Documents that Do Not Exist", RFC 90000, April 2009.',
            (
                f'[TRIAL]   {self.sheet.authors[0][0].split()[-1]}, "Notes from the {self.sheet.abbrev} Trial", '
                f"{self.sheet.authors[0][1]}, unpublished."
            ),
        ]
        if predecessor is not None:
            entries.append(f'[RFC{predecessor}] "{self.sheet.title}", RFC {predecessor}, May 2010.')
        self.nodes.extend(Node("item", entry) for entry in entries)

    def _appendices(self) -> None:
        self.appendix("A", "A Worked Example")
        self.text(f"{self.sheet.example}. The exchange that follows was recorded during the trial and shortened.")
        self.verbatim(trace(self.sheet, self.chooser))
        self.text(self.sentences("hazard.detail", 2), self.sentences("msg.reason", 2))
        self.appendix("B", "Acknowledgments")
        self.text(
            f"The authors thank the staff of {self.sheet.authors[-1][1]}, who do not exist, for their patience. This "
            "document is fiction: it was written as sample data, and no such protocol is in use anywhere."
        )


def _glued(glue: str, sentence: str) -> str:
    first = sentence.split(" ", 1)[0]
    keep = (first.isupper() and len(first) > 1) or "_" in first or first[:1].isdigit()
    return f"{glue} {sentence if keep else sentence[:1].lower() + sentence[1:]}"


_VOWEL = re.compile(r"\b([Aa])n? (?=([A-Za-z]\w*))")


def _tidy(text: str) -> str:
    """`a` or `an`, by the sound of the word that follows; names of messages and initials included."""
    return _VOWEL.sub(lambda match: f"{match[1]}{'n' if _sounds_open(match[2]) else ''} ", text)


def _sounds_open(word: str) -> bool:
    if word.isupper() and len(word) <= 5 and "_" not in word:
        return word == "OLR" or (word[0] in "AEFHILMNORSX" and word not in ("RCAT", "FSYNC"))
    lowered = word.lower()
    if lowered.startswith(("one", "once", "uni", "use", "usual")):
        return lowered.startswith("unin")
    return lowered[0] in "aeiou" or lowered.startswith(("hour", "honest"))
