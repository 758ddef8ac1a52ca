"""Things of everyday photographs: candidates for the examples of searches."""

from __future__ import annotations

_NOUNS = """
dog beach cat mountain flower boat child bicycle horse tree car bird lake train kitchen street
bridge sunset house garden bus airplane baby river forest cake pizza snowman giraffe elephant zebra
cow sheep bear motorcycle umbrella church field clock computer guitar kite skateboard surfboard tent
tower waterfall castle market fountain statue butterfly chair bed bench truck window ball balloon
swimmer wedding cup
"""
# This order decides between equal probabilities.
THINGS = tuple(f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}" for noun in _NOUNS.split())
