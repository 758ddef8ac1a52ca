"""Words of several senses: their senses in WordNet, and words around them that tell which.

A sense is a number of WordNet, the first most frequent there, and the domain that it belongs to.
The likeliest sense of a caption comes first here. 0 is a sense that demands nothing: it is no
thing, or none that classes tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hasse.studies.wordnet.words import word_set

_SENSES = """
    bank 0:land
    bar 1:eating
    bass 7:music 8:animal
    bat 5:sport 1:animal
    beam 0:building
    belt 0:clothing
    boa 1:clothing 2:animal
    bow 4:weapon 1:clothing 2:music 0:boat
    boxer 0:fight 4:animal
    can 0:container
    cardigan 1:clothing 2:animal
    case 0:container
    chest 0:body 2:box
    circle 0:sport
    coach 0:sport 5:traffic
    cover 0:paper
    crane 4:building 5:animal
    cricket 1:animal 0:sport
    diner 3:eating
    display 0:paper
    drill 1:tool 2:animal
    ear 0:body 5:eating
    fan 0:crowd 1:air
    figure 0:body
    form 0:body
    gondola 2:boat
    grill 0:eating
    hip 0:body
    horn 5:music 0:animal
    hose 0:tool
    jack 0:tool
    jacket 1:clothing
    key 0:tool
    kid 0:body
    kite 3:toy 4:animal
    lamp 2:building
    match 0:sport
    material 0:clothing
    medium 0:color
    mirror 0:body
    monitor 5:computer 7:animal
    mouse 1:animal 4:computer
    nail 2:tool 0:body
    orange 1:eating 0:color
    painter 0:color
    paper 0:paper
    patch 0:clothing
    pick 0:tool
    pirate 0:boat
    pitcher 2:container 0:sport
    plane 1:traffic 5:tool
    plant 0:eating
    plate 0:eating
    point 0:sky
    ray 7:animal 0:sky
    round 0:fight
    rubber 0:clothing
    runner 0:sport
    screen 3:computer
    seal 9:animal 0:paper
    shell 0:animal
    site 0:building
    spike 0:tool
    string 0:music
    tank 1:weapon 2:container
    telescope 0:sky
    turtle 2:animal 1:clothing
    wind 0:air
    wood 0:tool
    work 0:tool
"""

_CUES: Mapping[str, frozenset[str]] = {
    "air": word_set("air blow breeze ceiling cool electric folding hot portable spin summer turn"),
    "animal": word_set(
        """
        animal antler ape aquarium ate bark beak beast bill bird bite bitten bred breed bull bug
        burrow cage calf cat catch caught cave cheese claw coral cow crawl creature deer diver
        dolphin eat eaten eagle egg elephant farm feather fed feed feeding female field fin fish
        flap fled fly forest fox frog fur furry goat graze grass hawk hatch heron hole hoof howl
        hunt ice insect jungle leap leg lick lizard mammal mane marsh meadow nest nibble nose
        ocean owl pasture paw perch pet pig pond predator prey pup puppy rat reed reef reptile
        river rock rodent roost sand sea seed shark sheep sleep snake snout swam swallow swim tail
        underwater wade web whale whisker wild wing zoo
        """
    ),
    "boat": word_set(
        "boat canal captain deck dock harbor harbour row sail sailboat ship stern tourist water"
    ),
    "body": word_set(
        """
        bare bite bitten finger hair hand leg long manicure muscle naked paint polish red salon
        shirtless skin tattoo toe
        """
    ),
    "box": word_set("antique drawer key lid locked open pirate storage toy treasure wooden"),
    "building": word_set(
        """
        beam brick bridge build building built cargo concrete construction container demolition
        dock excavator floor frame harbor harbour hoist hook lift load operator port roof scaffold
        scaffolding site skyscraper steel storey street structure tower truck warehouse worker
        """
    ),
    "clothing": word_set(
        """
        ballerina blouse button child christmas closet coat costume dancer dress dressed evening
        fashion gift girl gown hair hat head jacket knit knitted lady neck outfit package pink
        present ribbon scarf shirt silk skirt sleeve sweater tie tied warm wear wearing woman
        wool wore wrap
        """
    ),
    "color": word_set(
        """
        black blonde blue boy bright brown clothes clothing color colored colour dog dress dressed
        girl green grey gray jersey man pink player purple red reflective stripe striped sunset
        team uniform vest wear white woman worker wore yellow
        """
    ),
    "computer": word_set(
        """
        browser cable click computer cord cursor desk desktop display game internet keyboard
        keypad laptop monitor mouse office pad pc phone pointer printer screen scroll software
        speaker television tv type usb video website wire wireless work
        """
    ),
    "container": word_set(
        """
        aquarium beer bottle drawer drink empty fill filled fish fuel full gas glass gold gravel
        ice juice kitchen lemonade lid liquid milk oil open oxygen petrol pour pump scuba storage
        store table tea tool toy treasure water wine wooden
        """
    ),
    "crowd": word_set("arena audience band cheer crowd football game player singer stadium team"),
    "eating": word_set(
        """
        apple bake banana basket beer bite bowl breakfast butter chop cob cook corn cut dessert
        dinner drink eat eating fork fruit grape grill half husk juice juicy kernel kitchen knife
        lemon lunch market peel pineapple plate ripe roast salad slice squeeze sweet tree vegetable
        """
    ),
    "fight": word_set("bout fight fought glove match opponent punch referee ring round train"),
    "music": word_set(
        """
        accordion band brass cellist cello concert conductor drum fiddle guitar guitarist
        instrument jazz marching microphone music musical musician note orchestra parade perform
        performer piano play player sang saxophone sing singer song stage trombone trumpet tuba
        violin violinist
        """
    ),
    "paper": word_set("document envelope letter official paper podium president stamp wax"),
    "sky": word_set("cloud light shine sky sun sunlight sunshine window"),
    "sport": word_set(
        """
        ball baseball base basketball batsman batter bowler catcher club cricket field football
        game glove helmet hit inning league marathon match mound pitch play player race referee
        soccer softball sport stadium swing swung team tennis threw throw umpire wicket wooden
        """
    ),
    "tool": word_set(
        """
        board bolt bench build carpenter carve chisel fix garage hammer hole metal plank repair saw
        screw screwdriver shop smooth tool toolbox wall wood wooden workbench workshop
        """
    ),
    "toy": word_set("beach boy child fly flew flown girl hold kid man park string wind"),
    "traffic": word_set(
        """
        airport bus cabin car crash cross drive driver drove engine flew flight fly flown highway
        hangar jet land landing passenger pilot propeller rail ride road runway sky street station
        take track traffic train travel
        """
    ),
    "weapon": word_set(
        """
        aim archer archery army arrow attack battle camouflage crossbow enemy fire gun hunter hunt
        military quiver shoot shot soldier sword target tracks uniform war warrior
        """
    ),
}


# Of each word, its senses: numbers of WordNet, and domains, the likeliest first.
LISTED: Mapping[str, Sequence[tuple[int, str]]] = {
    word: [(int(number), domain) for number, _, domain in (one.partition(":") for one in senses)]
    for word, *senses in (line.split() for line in _SENSES.strip().split("\n"))
}
# The domains that a word around another one tells of.
DOMAINS: Mapping[str, tuple[str, ...]] = {
    word: tuple(name for name, cues in _CUES.items() if word in cues)
    for word in sorted(frozenset[str]().union(*_CUES.values()))
}
