"""The page as one file: its contents, and that it fetches nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from importlib import resources
from typing import Any

import pytest

from retrograd.explanation import html_page
from retrograd.explanation.operators import find


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return find("linear").with_settings({}).to_dict()


def modules(html: str) -> dict[str, str]:
    found = re.search('<script type="importmap">(.*?)</script>', html)
    assert found is not None
    imports = json.loads(found[1])["imports"]
    start = "data:text/javascript;base64,"
    assert all(address.startswith(start) for address in imports.values())
    return {name: base64.b64decode(address[len(start) :]).decode() for name, address in imports.items()}


def data(html: str) -> Any:
    found = re.search('<script type="([^"]*)" id="source"( data-packed)?>(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(zlib.decompress(base64.b64decode(found[3])) if found[2] else found[3])


def test_every_module_is_there_and_every_import_is_found(document):
    there = modules(html_page.page([document]))
    files = {
        f"page/{each.name[:-3]}"
        for each in resources.files("retrograd.explanation").joinpath("page").iterdir()
        if each.name.endswith(".js")
    }
    assert there.keys() == files
    exported = {
        name: set(re.findall(r"^export (?:async )?(?:const|function|class) (\w+)", text, re.MULTILINE))
        for name, text in there.items()
    }
    for name, text in there.items():
        for names, other in re.findall(r"^import \{([^}]*)\} from \"([^\"]*)\";", text, re.MULTILINE):
            wanted = {each.strip() for each in names.split(",") if each.strip()}
            assert wanted <= exported[other], (name, other)
        words = set(re.findall(r"\w+", re.sub("^import .*?;$", "", text, flags=re.MULTILINE | re.DOTALL)))
        imported = re.findall(r"^import \{([^}]*)\}", text, re.MULTILINE)
        unused = {each.strip() for names in imported for each in names.split(",") if each.strip()} - words
        assert not unused, f"{name} imports {unused} in vain"


def test_every_style_is_there(document):
    html = html_page.page([document])
    files = [
        each
        for each in resources.files("retrograd.explanation").joinpath("page").iterdir()
        if each.name.endswith(".css")
    ]
    assert len(files) == len(html_page._STYLES)
    assert all(each.read_text(encoding="utf-8") in html for each in files)


def test_nothing_is_fetched(document):
    html = html_page.page([document])
    text = html + "".join(modules(html).values())
    addresses = set(re.findall(r"\b(?:https?|wss?|ftp):[^\s\"'`)]*", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}, "names of the SVG format only"
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", html)


def test_the_policy_lets_in_what_is_in_the_file_and_no_more(document):
    html = html_page.page([document])
    policy = dict(rule.split(" ", 1) for rule in re.findall('Policy" content="([^"]*)"', html)[0].split("; "))
    assert policy["default-src"] == "'none'" and "connect-src" not in policy

    def allowed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    scripts = re.findall('<script type="(?:importmap|module)">(.*?)</script>', html, re.DOTALL)
    assert set(policy["script-src"].split()) == {*map(allowed, scripts), "data:"}
    assert policy["style-src"] == allowed(re.findall("<style>(.*?)</style>", html, re.DOTALL)[0])
    served = html_page.page([], {"token": "t"})
    assert "connect-src 'self'" in served and data(served)["served"] == {"token": "t"}


def test_the_data_come_back_as_they_were(document):
    found = data(html_page.page([document]))
    assert found["served"] is None and found["documents"] == [document]
    large = document | {"python": "x" * 300_000}
    html = html_page.page([large])
    assert " data-packed>" in html and len(html) < 400_000 and data(html)["documents"] == [large]


def test_text_of_the_user_ends_no_element(document):
    nasty = "</script><script>alert(1)</script><!-- @style@ &amp; \u2028"
    evil = document | {"python": nasty, "operator": '<b title="x">'}
    html = html_page.page([evil])
    assert "alert(1)</script>" not in html and data(html)["documents"] == [evil]
    assert "<title>&lt;b title=&quot;x&quot;&gt; · see the gradient</title>" in html


def test_a_page_of_nothing_is_refused():
    with pytest.raises(ValueError, match="page: documents is empty, expected at least one explanation as a dict"):
        html_page.page([])
