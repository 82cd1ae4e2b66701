"""Documents that exist to be difficult: hostile bytes, and a working group with almost nothing in it.

What belongs here: documents that no sheet describes, and the reason why each is in the sample.
"""

from __future__ import annotations

BOM = b"\xef\xbb\xbf"

_HOSTILE = """Orchard Naming Working Group                               T. Windlass
Request for Comments: 90109                           Windfall Research
Category: Informational                                        May 2014


          Labels from Many Scripts: A Collection of Awkward Cases

Abstract

   This memo collects labels that orchards have applied for and that
   broke somebody's software.  They are printed as they were written,
   with all their marks, directions and controls.  The memo is fiction.

Table of Contents

   1.  Why this Memo is Difficult  . . . . . . . . . . . . . . .  1
   2.  The Cases . . . . . . . . . . . . . . . . . . . . . . . .  2
   3.  Advice  . . . . . . . . . . . . . . . . . . . . . . . . .  3

1.  Why this Memo is Difficult

   Offsets are counted in characters, and a character is not an octet.
   A reader that searches for a label finds the wrong one when two
   labels look alike.  Each case below was met at least once.



Windlass                     Informational                      [Page 1]
\f
RFC 90109                  Labels from Many Scripts             May 2014


2.  The Cases

2.1.  Emoji

   The cooperative of \U0001f34f\U0001f350\U0001f351 asked for three fruits in a row, and later for a
   family \U0001f468\u200d\U0001f469\u200d\U0001f467 joined by zero width joiners, which is one picture and
   five code points.  A flag, \U0001f1f3\U0001f1f4, is two code points.

2.2.  Combining Marks

   "Re\u0301ne\u0301e" and "R\u00e9n\u00e9e" look the same; the first has seven code points
   and the second has five.  A stack of marks, a\u0300\u0301\u0302\u0303\u0304\u0305, stands on one letter.
   The Hangul syllable \uac00 can be written as \u1100\u1161.

2.3.  Directions

   \u202eelppa\u202c is an apple seen in a mirror.  The label \u05ea\u05e4\u05d5\u05d7 12 \u05e2\u05e5 mixes
   directions, and \u2067isolates\u2069 were used to hide a second label in it.

2.4.  White Space

   Between\ttabs,\u00a0no-break spaces,\u2003em spaces,\u3000ideographic spaces and a
   zero\u200bwidth space lie five words that a reader sees as one.  A line
   separator\u2028ends no line here, and next line\u0085ends none either.

2.5.  Controls

   A NUL stands here: >\x00< and a bell: >\x07<.  A noncharacter stands
   here: >\ufffe< and a private one: >\ue000<.  RFC 90110 has the octets
   that are not even characters.



Windlass                     Informational                      [Page 2]
\f
RFC 90109                  Labels from Many Scripts             May 2014


3.  Advice

   Carry offsets, never search for them.  Replace what cannot be
   decoded, one for one, and say how many were replaced.  The orchard of
   Ngaio Fairweather was entered twice under names that differ by one
   soft hyphen, Quince\u00adbank and Quincebank, and lost its spring orders.

   The longest word that was ever applied for has no space in it:
   @LONG@

Author's Address

   Tobias Windlass
   Windfall Research
   Email: tobias.windlass@windfall-research.example



Windlass                     Informational                      [Page 3]
"""

_BROKEN = """Orchard Naming Working Group                               T. Windlass
Request for Comments: 90110                           Windfall Research
Category: Informational                                       June 2014


           Labels in no Encoding: Octets that Mean Nothing

Abstract

   This memo collects octets that orchards have sent in place of
   labels.  It is valid in no single encoding, and that is its subject.
   The memo is fiction.

1.  Octets

   A lone surrogate written in three octets: >@SURROGATE@<.  A Latin-1
   letter among UTF-8: caf@LATIN@ beside caf\u00e9.  A sequence cut short:
   >@SHORT@<.  An overlong slash: >@OVERLONG@<.  An octet that is never
   used: >@NEVER@<.  A NUL: >\x00<.

2.  What was Meant

   The cooperative of Port Orsay meant "Reinette gris@LATIN@e" and sent it
   from a machine of 1991.  The registry kept the octets for eleven
   years, entered the label twice, and wrote to the wrong grower.

Author's Address

   Tobias Windlass
   Windfall Research
   Email: tobias.windlass@windfall-research.example
"""

_LANTERN = """


Lantern Signalling                                      E. Wickerby, Ed.
Request for Comments: 90201                      Society of Lamplighters
Category: Informational                                 February 2020
ISSN: 0000-0000


              Three Lanterns: A Signal for Closed Bridges

Abstract

   Three lanterns hung one above the other mean that a swing bridge will
   not open before morning.  This document fixes their colours and says
   who may hang them.

Table of Contents

   1.  Colours
   2.  Authority
   3.  Security Considerations
   Author's Address

1.  Colours

   The upper lantern is white, the middle one is green and the lower one
   is amber.  They hang 80 centimetres apart on the side from which the
   current comes.  A lantern that has gone out is replaced within twenty
   minutes, and until then the whole signal means nothing.

   Red is not used, because in 2017 the master of a grain barge took two
   reds and a white for a fire and called out four brigades.

2.  Authority

   Only the bridge keeper hangs the lanterns.  If the keeper is ill, the
   lock keeper of the next lock upstream hangs them and writes down the
   minute.  A keeper who leaves the signal up after the bridge has been
   opened buys soup for the crew of each vessel that waited.

3.  Security Considerations

   Anyone can hang three lanterns.  In nine years of records there is
   one false signal, hung by students, and it was recognised because the
   amber lantern was a pumpkin.

   This document is fiction: it was written as sample data.

Author's Address

   Edda Wickerby
   Society of Lamplighters
   Email: edda.wickerby@lamplighters.example
"""


def hostile_rfc() -> bytes:
    """An RFC with CRLF line ends, form feeds, controls and marks, all of it valid UTF-8."""
    return _HOSTILE.replace("@LONG@", "Applepearquince" * 40).encode("utf-8").replace(b"\n", b"\r\n")


def broken_rfc() -> bytes:
    """An RFC whose octets are not valid UTF-8: Latin-1, a lone surrogate, cut and overlong sequences."""
    raw = _BROKEN.encode("utf-8")
    for mark, octets in (
        (b"@SURROGATE@", b"\xed\xa0\x80"),
        (b"@LATIN@", b"\xe9"),
        (b"@SHORT@", b"\xe2\x82"),
        (b"@OVERLONG@", b"\xc0\xaf"),
        (b"@NEVER@", b"\xff"),
    ):
        raw = raw.replace(mark, octets)
    return raw


def lantern_rfc() -> bytes:
    """An RFC of the new style, so short that its working group stays far below any floor."""
    return BOM + _LANTERN.encode("utf-8")
