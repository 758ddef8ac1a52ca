"""The page that combines words, stored pictures and uploaded pictures."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from hasse.service.page.combine import SUGGESTIONS, CombineForm
from hasse.service.questions.requests import PARTS_MAXIMUM
from tests.service.client import Client
from tests.service.collection import png
from tests.service.page.markup import HTMX, Tags, said

ADDRESS = "/page/combine"
MANY = "\n".join(map(str, range(200)))
MANY_IMAGES = [str(at) for at in range(PARTS_MAXIMUM + 1)]
THINGS = "\n".join(f"a dog {at}" for at in range(PARTS_MAXIMUM))


def put(client: Client, *pictures: bytes, **fields: str | list[str]) -> httpx.Response:
    """Send the form, as a browser does: a file field without a file comes empty."""
    if pictures:
        files = [("pictures", (f"{at}.png", found)) for at, found in enumerate(pictures)]
        return client.post(ADDRESS, files=files, data=fields)
    # By hand: httpx sends a file without a name as a text.
    parts = ['name="pictures"; filename=""\r\nContent-Type: application/octet-stream\r\n\r\n']
    for name, given in fields.items():
        texts = [given] if isinstance(given, str) else given
        parts += [f'name="{name}"\r\n\r\n{text}' for text in texts]
    body = "".join(f"--x\r\nContent-Disposition: form-data; {part}\r\n" for part in parts)
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    return client.post(ADDRESS, content=f"{body}--x--\r\n".encode(), headers=headers)


def shown(response: httpx.Response) -> list[str]:
    """Return the numbers of the pictures found."""
    return re.findall(r'class="shot" href="/\?image=(\d+)', response.text)


def alert(response: httpx.Response) -> str:
    """Return the sentence that says what went wrong."""
    found = re.search(r'<p class="notice" role="alert">([^<]+)</p>', response.text)
    assert found is not None, response.text
    return html.unescape(found[1])


def test_combine_all_of_shows_the_pictures_of_the_api(client: Client) -> None:
    response = put(
        client, png(3), operation="all_of", image="1005", words="a dog\r\n a  cat \n", k="7"
    )
    asked = {"all_of": [1003, 1005, "a dog", "a cat"], "k": 7}
    found = client.post("/search/all_of", json=asked).json()
    assert response.status_code == 200
    assert shown(response) == [str(hit["image_id"]) for hit in found["hits"]]
    assert response.text.count('<img src="data:image/jpeg;base64,') == 1
    assert "Pictures with all of it a dog + a cat" in said(response)


def test_combine_common_shows_the_captions_of_the_api(client: Client) -> None:
    response = put(client, png(3), png(4), operation="common", words="a dog")
    found = client.post("/search/common", json={"common": [1003, 1004, "a dog"], "k": 192}).json()
    lines = re.findall(r'class="caption" href="[^"]+">([^<]+)<', response.text)
    assert lines[0] == found["hits"][0]["caption"]
    assert "What it all has in common a dog" in said(response)


@pytest.mark.parametrize("minus", ["", "a dog", "dog"])
def test_combine_like_shows_the_pictures_of_the_api(client: Client, minus: str) -> None:
    asked = {"like": 1003, "plus": ["cat"], "minus": [minus] if minus else [], "k": 5}
    found = client.post("/search/like", json=asked).json()
    address = {"operation": "like", "image": "1003", "words": "cat", "without": minus, "k": "5"}
    page = client.get(ADDRESS, params=address)
    assert shown(page) == [str(hit["image_id"]) for hit in found["hits"]]
    own = put(client, png(3), operation="like", words="cat", without=minus, k="6")
    assert [one for one in shown(own) if one != "1003"][:5] == shown(page)
    assert f'action="{ADDRESS}#result"' in client.get("/?image=1003").text


def test_combine_without_uploads_has_an_address_that_repeats_it(
    client: Client,
) -> None:
    fields = {"operation": "all_of", "image": ["1003", "1004"], "words": "a dog\na cat", "k": "7"}
    response = client.post(ADDRESS, files=[("pictures", ("", b""))], data=fields, headers=HTMX)
    again = client.get(response.headers["HX-Push-Url"])
    assert shown(again) == shown(response) != []
    assert again.text.count("checked><img") == 2


def test_combine_address_with_lost_uploads_asks_for_them_again(client: Client) -> None:
    sent = client.post(
        ADDRESS,
        files={"pictures": ("a.png", png())},
        data={"operation": "common", "words": "a dog"},
        headers=HTMX,
    )
    again = client.get(sent.headers["HX-Push-Url"])
    assert again.status_code == 200
    assert alert(again).startswith("Choose your pictures once more")
    assert "a dog</textarea>" in again.text


def test_other_pages_link_to_combine_with_their_parts(client: Client) -> None:
    for path, asked in (
        ("/", []),
        ("/?q=a+dog+%2B+a+cat", [("words", "a dog"), ("words", "a cat")]),
        ("/?image=1003", [("image", "1003")]),
    ):
        links = [str(link["href"]) for link in Tags(client.get(path).text).of("a")]
        steps = [urlsplit(link) for link in links if link.startswith(ADDRESS)]
        assert asked in [parse_qsl(step.query) for step in steps]
        form = client.get(steps[0].geturl())
        assert 'id="combine"' in form.text
    step = next(
        urlsplit(link)
        for link in re.findall(
            r'href="([^"]+operation=common[^"]+)"', html.unescape(client.get("/?q=a+dog").text)
        )
    )
    hits = client.post("/search/images", json={"caption": "a dog", "k": 3}).json()["hits"]
    assert parse_qsl(step.query)[1:] == [("image", str(hit["image_id"])) for hit in hits]


def test_combine_find_suggests_pictures_without_searching(client: Client) -> None:
    hits = client.post("/search/images", json={"caption": "a dog", "k": 12}).json()["hits"]
    found = [str(hit["image_id"]) for hit in hits]
    for chosen in (found[0], found[-1]):
        fields = {"operation": "all_of", "words": "a cat", "do": "find", "find": "a dog"}
        response = client.get(ADDRESS, params={**fields, "image": chosen}, headers=HTMX)
        boxes = [box for box in Tags(response.text).of("input") if box.get("type") == "checkbox"]
        more = [one for one in found if one != chosen][:SUGGESTIONS]
        assert [box["value"] for box in boxes] == [chosen, *more]
        assert ["checked" in box for box in boxes] == [True] + [False] * len(more)
        assert response.headers["HX-Push-Url"] == "false"
        assert shown(response) == []


@pytest.mark.parametrize(
    ("pictures", "fields", "status", "words"),
    [
        ([], {"operation": "all_of"}, 422, "Name something first: some words, or a picture."),
        ([], {"operation": "common", "words": " \n "}, 422, "Name something first"),
        (
            [],
            {"operation": "all_of", "words": MANY},
            422,
            "At most 16 things",
        ),
        (
            [],
            {"operation": "all_of", "image": MANY_IMAGES},
            422,
            "At most 16 things",
        ),
        ([], {"operation": "all_of", "words": "a " * 101}, 422, "More than 100 words."),
        ([], {"operation": "like", "words": "a dog"}, 422, "Choose a picture"),
        ([], {"operation": "like", "less": "1003"}, 422, "Choose a picture"),
        ([], {"operation": "like", "less": "1003", "words": "a"}, 422, "Choose a picture"),
        ([3], {"operation": "like", "words": "a", "without": THINGS}, 422, "At most 16 things"),
        ([3, None], {"operation": "common"}, 415, "1.png: That is not a picture Hasse can read."),
        ([], {"operation": "common", "image": "7"}, 404, "That picture is not here."),
        ([], {"operation": "common", "image": "x"}, 404, "That picture is not here."),
    ],
)
def test_combine_that_cannot_be_answered_says_why_beside_the_form(
    client: Client,
    pictures: list[int | None],
    fields: dict[str, str | list[str]],
    status: int,
    words: str,
) -> None:
    contents = [b"no picture" if seed is None else png(seed) for seed in pictures]
    response = put(client, *contents, **fields)
    assert response.status_code == status
    assert words in alert(response)
    assert 'id="combine"' in response.text


def test_combine_accepts_the_maximum_of_parts(client: Client) -> None:
    words = THINGS.partition("\n")[2]
    assert put(client, png(), operation="all_of", words=words).status_code == 200
    assert put(client, png(), operation="like", words=words, without=words).status_code == 200


def test_combine_form_counts_repeats_of_pictures_as_weights() -> None:
    said = [("image", "7"), ("image", "07"), ("less", "8"), ("image", "9"), ("less", "9")]
    found = CombineForm.read([*said, ("words", "a dog\n a  dog"), ("words", "a dog")])
    assert (found.image_ids, found.words) == ((7, 8), ("a dog",))
    assert (found.repeated_ids(1), found.repeated_ids(-1)) == ([7, 7], [8])
    assert found.with_weight_changed(8, 1) == {"image_ids": [7, 7, 8], "less_ids": []}
    assert found.without_image(7) == {"image_ids": [], "less_ids": [8]}


def test_combine_like_several_shows_the_pictures_of_the_api_and_changes_their_weights(
    client: Client,
) -> None:
    asked = {"like": 1003, "also": [1003, 1004], "less": [1005], "minus": ["a dog"], "k": 5}
    found = client.post("/search/like", json=asked).json()
    fields = {"operation": "like", "image": ["1003", "1003", "1004"], "less": "1005", "k": "5"}
    page = client.get(ADDRESS, params={**fields, "without": "a dog"})
    assert shown(page) == [str(hit["image_id"]) for hit in found["hits"]]
    assert re.findall("(more|less) like it(?: × (\\d))?</span>", page.text) == [
        ("more", "2"),
        ("more", ""),
        ("less", ""),
    ]
    links = Tags(page.text).of("a")
    (more,) = [one["href"] for one in links if one.get("title") == "More like this one"][2:]
    assert parse_qsl(urlsplit(str(more)).query)[2:] == [
        *(("image", number) for number in ("1003", "1003", "1004", "1005")),
        ("k", "5"),
    ]


def test_combine_with_unknown_operation_shows_the_form(client: Client) -> None:
    response = client.get(f"{ADDRESS}?operation=sideways&words=a+dog")
    assert (response.status_code, shown(response)) == (200, [])
    assert "a dog</textarea>" in response.text


@pytest.mark.parametrize("size", [5_000_001, 6_000_000])
def test_combine_uploads_beyond_the_limit_name_it(client: Client, size: int) -> None:
    response = put(client, bytes(size), bytes(size), operation="common")
    assert response.status_code == 413
    assert "You can send at most 10 MB." in alert(response)
