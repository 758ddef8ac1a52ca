"""The table of questions. Routes, the OpenAPI document and both clients are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hasse.service.questions import answers, requests
from hasse.service.questions.requests import QuestionRequest
from hasse.service.schemas import Answer

Asked = TypeVar("Asked", bound=QuestionRequest)
Answered_co = TypeVar("Answered_co", bound=Answer, covariant=True)

_OF_STORED = ("not_found",)


@dataclass(frozen=True, slots=True)
class Question(Generic[Asked, Answered_co]):
    """A question that a client can send.

    Attributes:
        path: the address of its route.
        request, answer: models of what is sent and of what comes back.
        summary, description, success: its entry in the OpenAPI document.
        picture: the field whose place a picture takes, which comes as the file of a form; in a list
            the picture is the first of several parts. Empty where no picture can be sent.
        json: whether it can be sent as JSON, too.
        reasons: errors beside those of all searches.
        tag: where the OpenAPI document lists it.
    """

    path: str
    request: type[Asked]
    answer: type[Answered_co]
    summary: str
    success: str
    description: str
    picture: str = ""
    json: bool = True
    reasons: tuple[str, ...] = ()
    tag: str = "search"


SEARCH_IMAGES = Question(
    "/search/images",
    requests.ImageQuery,
    answers.ImageAnswer,
    "Find the images a caption is true of, or that are like a picture",
    "The images, the best first",
    """Rank the images of the collection by how far each falls short of the caption.

    Send a form for a picture: then `violation` is the squared distance from it, or, with `similar`,
    what a more specific image lacks of it, or what a more general image has beside it.
    """,
)
SEARCH_SIMILAR = Question(
    "/search/images",
    requests.SimilarQuery,
    answers.ImageAnswer,
    SEARCH_IMAGES.summary,
    SEARCH_IMAGES.success,
    SEARCH_IMAGES.description,
    picture="image",
    json=False,
)
SEARCH_IMAGES_TOGETHER = Question(
    "/search/images/batch",
    requests.ImagesQuery,
    answers.ImageAnswers,
    "Find the images that each of several captions is true of",
    "An answer for each caption",
    "Answer up to 32 captions together: they are encoded and searched as one batch.",
)
SEARCH_CAPTIONS = Question(
    "/search/captions",
    requests.CaptionQuery,
    answers.CaptionAnswer,
    "Find the captions that are true of a picture",
    "The captions, the best first",
    """Rank the captions of the collection: those likely true that say most, then by violation.

    The format of the picture is read from its first bytes, not from its name or content type.
    """,
    picture="image",
    json=False,
)
SEARCH_ALL_OF = Question(
    "/search/all_of",
    requests.AllOfQuery,
    answers.AllOfAnswer,
    "Find the images that several things are true of at once",
    "The images, the best first",
    """Rank images by the part that each of them fits worst.

    An image precedes the join of the parts exactly when it precedes each part. Where the order
    holds only nearly, the worst part tells better than their join which images have all of them.
    Parts that contradict each other are no error: `parts` shows which of them a hit lacks. Send a
    form for a picture of your own; it is the first part.
    """,
    picture="all_of",
    reasons=_OF_STORED,
    tag="lattice",
)
SEARCH_COMMON = Question(
    "/search/common",
    requests.CommonQuery,
    answers.CommonAnswer,
    "Find the captions that are true of several things at once",
    "The captions, the best first",
    """Rank captions by the part that each of them fits worst: what images and captions share.

    Send a form for a picture of your own; it is the first part.
    """,
    picture="common",
    reasons=_OF_STORED,
    tag="lattice",
)
SEARCH_LIKE = Question(
    "/search/like",
    requests.LikeQuery,
    answers.ImageAnswer,
    "Find images like some and less like others, with something put in or taken out",
    "The images, the best first",
    """Rank images by how far each falls short of `like` with `plus` in the place of `minus`.

    `also` names further parts that hits should be like, `less` those that they should be less like.
    Without `plus`, `violation` is the squared distance from all that.

    A single word is exchanged in the shortest captions of the collection that contain it and are
    true of `like`: "red" for "blue" is "a red ball" for "a blue ball", where there is one. Send a
    form to start from a picture of your own.
    """,
    picture="like",
    reasons=_OF_STORED,
    tag="lattice",
)
ENTAILS = Question(
    "/entails",
    requests.EntailsQuery,
    answers.Entailment,
    "Tell whether a caption is true of an image or follows from a caption",
    "The model's judgement",
    """Tell whether the hypothesis follows from the premise.

    Send JSON for a caption or an image of the collection, a form for a picture of your own. With
    `where`, the answer has a box for each thing that the caption names, by the classes that the
    network of a grounded model tells apart.
    """,
    picture="premise",
    reasons=(*_OF_STORED, "picture_missing"),
    tag="lattice",
)
ENTAILS_TOGETHER = Question(
    "/entails/batch",
    requests.PairsQuery,
    answers.Entailments,
    "Tell of several pairs whether one follows from the other",
    "An answer for each pair",
    "Answer up to 64 pairs together.",
    reasons=_OF_STORED,
    tag="lattice",
)
DIAGRAM = Question(
    "/diagram",
    requests.DiagramQuery,
    answers.Diagram,
    "Draw the Hasse diagram of a caption",
    "The diagram",
    "Return the captions right above a caption and right below, found in the collection.",
    reasons=_OF_STORED,
    tag="lattice",
)
DESCRIBE = Question(
    "/describe",
    requests.DescribeQuery,
    answers.Description,
    "Write captions for a picture",
    "Generated captions, the best first",
    """Write captions for a picture of yours, sent as a form, or for an image of the collection.

    Captions that are likely to be true come first, those that name an action before others, and
    among them the most specific.
    """,
    picture="image_id",
    reasons=(*_OF_STORED, "no_captioner"),
)
EMBED = Question(
    "/embed",
    requests.EmbedQuery,
    answers.Embeddings,
    "Return the embeddings of texts, or of a picture",
    "The embeddings",
    """Encode up to 256 texts together, or a picture that is sent as a form.

    A text without one word that the model knows has `known` false: its embedding means nothing.
    """,
    picture="texts",
)

# Sent with POST. A diagram is fetched with GET, so that a browser can keep its address.
QUESTIONS: tuple[Question[Any, Any], ...] = (
    SEARCH_IMAGES,
    SEARCH_SIMILAR,
    SEARCH_IMAGES_TOGETHER,
    SEARCH_CAPTIONS,
    SEARCH_ALL_OF,
    SEARCH_COMMON,
    SEARCH_LIKE,
    DESCRIBE,
    ENTAILS,
    ENTAILS_TOGETHER,
    EMBED,
)
