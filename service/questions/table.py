"""The table of questions: the source of the routes, the OpenAPI document and both clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hasse.service.questions import answers, requests
from hasse.service.questions.requests import QuestionRequest
from hasse.service.schemas import Answer

RequestType = TypeVar("RequestType", bound=QuestionRequest)
AnswerType_co = TypeVar("AnswerType_co", bound=Answer, covariant=True)

_OF_STORED = ("not_found",)


@dataclass(frozen=True, slots=True)
class Question(Generic[RequestType, AnswerType_co]):
    """A question to the service.

    Attributes:
        path: the address of its route.
        request, answer: models of the request and of the answer.
        summary, description, success: its entry in the OpenAPI document.
        picture: the field that an uploaded picture (the file of a form) fills; in a list, the
            picture comes first. Empty if the question takes no picture.
        json: whether the request can also be JSON.
        reasons: errors in addition to those of all searches.
        tag: its group in the OpenAPI document.
    """

    path: str
    request: type[RequestType]
    answer: type[AnswerType_co]
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

    Send a form to search by a picture. Then `violation` is the squared distance from it, or with
    `similar` the violation in the order, in one direction or the other.
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
SEARCH_IMAGES_BATCH = Question(
    "/search/images/batch",
    requests.ImagesQuery,
    answers.ImageAnswers,
    "Find the images that each of several captions is true of",
    "An answer for each caption",
    "Answer up to 32 captions, encoded and searched as one batch.",
)
SEARCH_CAPTIONS = Question(
    "/search/captions",
    requests.CaptionQuery,
    answers.CaptionAnswer,
    "Find the captions that are true of a picture",
    "The captions, the best first",
    """Rank the captions of the collection: likely and specific ones first, then by violation.

    The first bytes of the picture decide its format, not its name or content type.
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
    """Rank images by their worst part.

    An image precedes the join of the parts exactly when it precedes each part. As models are not
    exact, the worst part ranks better than the join. Contradictory parts are no error: `parts` has
    the violation of each. Send a form to use your own picture as the first part.
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
    """Rank captions by their worst part: what the images and captions have in common.

    Send a form to use your own picture as the first part.
    """,
    picture="common",
    reasons=_OF_STORED,
    tag="lattice",
)
SEARCH_LIKE = Question(
    "/search/like",
    requests.LikeQuery,
    answers.ImageAnswer,
    "Find images like some and less like others, with something added or removed",
    "The images, the best first",
    """Rank images by how far each falls short of `like` with `plus` in the place of `minus`.

    `also` has more examples, `less` has counterexamples. Without `plus`, `violation` is the squared
    distance.

    A single word is replaced in the shortest captions of the collection that contain it and are
    true of `like`: "red" for "blue" becomes "a red ball" for "a blue ball", if there is one. Send a
    form to start from your own picture.
    """,
    picture="like",
    reasons=_OF_STORED,
    tag="lattice",
)
ENTAILS = Question(
    "/entails",
    requests.EntailsQuery,
    answers.Entailment,
    "Judge whether a caption is true of an image or follows from a caption",
    "The model's judgement",
    """Judge whether the hypothesis follows from the premise.

    Send JSON for a caption or an image of the collection, or a form for your own picture. With
    `where`, the answer has a box for each thing in the caption that is a class of the network of a
    grounded model.
    """,
    picture="premise",
    reasons=(*_OF_STORED, "picture_missing"),
    tag="lattice",
)
ENTAILS_BATCH = Question(
    "/entails/batch",
    requests.PairsQuery,
    answers.Entailments,
    "Judge several pairs",
    "An answer for each pair",
    "Answer up to 64 pairs as one batch.",
    reasons=_OF_STORED,
    tag="lattice",
)
DIAGRAM = Question(
    "/diagram",
    requests.DiagramQuery,
    answers.Diagram,
    "Draw the Hasse diagram of a caption",
    "The diagram",
    "Return the captions of the collection directly above and directly below a caption.",
    reasons=_OF_STORED,
    tag="lattice",
)
DESCRIBE = Question(
    "/describe",
    requests.DescribeQuery,
    answers.Description,
    "Write captions for a picture",
    "Generated captions, the best first",
    """Write captions for your own picture, sent as a form, or for an image of the collection.

    The most specific captions come first. If nothing is sure, there are none.
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
    """Encode up to 256 texts as one batch, or a picture that is sent as a form.

    If the model knows no word of a text, `known` is false and the embedding means nothing.
    """,
    picture="texts",
)

# Sent with POST. A diagram is sent with GET, so that its address can be a bookmark.
QUESTIONS: tuple[Question[Any, Any], ...] = (
    SEARCH_IMAGES,
    SEARCH_SIMILAR,
    SEARCH_IMAGES_BATCH,
    SEARCH_CAPTIONS,
    SEARCH_ALL_OF,
    SEARCH_COMMON,
    SEARCH_LIKE,
    DESCRIBE,
    ENTAILS,
    ENTAILS_BATCH,
    EMBED,
)
