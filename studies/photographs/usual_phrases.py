"""Phrases of which captions of photographs are put together."""

from __future__ import annotations

from hasse.models.captioning.phrases import Phrases
from hasse.studies.photographs.classes import article


def _words(text: str) -> list[str]:
    return [word.replace("_", " ") for word in text.split()]


def _nouns(text: str) -> tuple[str, ...]:
    return tuple(map(article, _words(text)))


USUAL = Phrases(
    people=("people", "men", "women", "children", *_nouns("person man woman boy girl child baby")),
    things=_nouns(
        """
        dog cat horse cow sheep elephant bear zebra giraffe monkey rabbit lion tiger duck swan owl
        eagle parrot penguin chicken goat pig deer camel squirrel hamster fox wolf turtle frog snake
        lizard butterfly bee spider crab lobster whale dolphin shark seal kangaroo koala panda
        leopard hippopotamus antelope buffalo goose peacock ostrich flamingo crocodile dragonfly
        beetle gorilla
        car bus truck van bicycle motorcycle train airplane boat ship canoe tractor helicopter
        ambulance taxi scooter skateboard surfboard kayak snowplow
        table chair bench bed couch desk bookcase lamp clock computer laptop keyboard television
        telephone camera radio printer refrigerator stove oven microwave toaster dishwasher
        guitar piano violin drum trumpet flute accordion saxophone harp
        pizza sandwich hamburger cake apple banana strawberry lemon pineapple cucumber
        cauliflower mushroom pumpkin hotdog bagel pretzel
        bottle cup bowl basket bucket backpack purse umbrella hat helmet bow_tie scarf necklace
        ball basketball racket kite balloon
        church castle bridge tower fountain lighthouse barn tent fence windmill
        book newspaper hammer screwdriver axe drill shovel broom candle teddy_bear traffic_light
        bathtub toilet
        """
    ),
    general=("food", "fruit", "vegetables", *_nouns("animal bird fish vehicle building flower")),
    actions=(
        *_words(
            """
            sitting running walking jumping sleeping swimming climbing smiling dancing
            skateboarding surfing skiing
            """
        ),
        *(f"riding {one}" for one in _nouns("bicycle horse motorcycle")),
        *(f"playing {one}" for one in _words("football baseball tennis")),
    ),
    places=(
        *(f"in the {one}" for one in _words("water sea snow mountains desert")),
        *(f"in {one}" for one in _nouns("pool field forest garden park city")),
        *(f"in {one}" for one in _nouns("kitchen room restaurant stadium")),
        *(f"on {one}" for one in _nouns("beach street road bed couch")),
        *("on the grass", "on rocks"),
    ),
)
