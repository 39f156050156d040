"""The page of a configuration."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from mezzo.frontends.click.marks import marks

TEXT = """// a router <b>
elementclass Out { $n | input -> q :: Queue($n) -> Unqueue -> output }
define($x 5); c :: Classifier(12/0800, -); /* over
two lines */ InfiniteSource(LIMIT 5) -> c; c [0] -> o :: Out($x) -> d :: Discard;
c [1] -> Strange("<&>") -> d;
"""
VOID = {"meta", "br", "path", "rect", "line", "circle"}


class Balance(HTMLParser):
    """Checks that tags are closed in order, and gathers ids and links."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []
        assert not {"src"} & set(found), "a page of one file loads nothing"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def test_the_page_is_whole_and_its_links_lead_somewhere(mezzo):
    page = mezzo("pretty", "-e", TEXT).out
    found = Balance(page)
    assert page.startswith("<!DOCTYPE html>") and "prefers-color-scheme: dark" in page
    assert len(set(found.ids)) == len(found.ids)
    inner = {link.removeprefix("#") for link in found.links if link.startswith("#")}
    assert not {link for link in found.links if not link.startswith("#")}
    assert {"class-Queue", "class-Strange", "row-c", "c-Out"} <= inner
    assert inner <= set(found.ids)
    assert "Stores packets first in, first out." in page and "<svg" in page


def test_text_stays_the_text(mezzo):
    page = mezzo("pretty", "-e", TEXT).out
    source = page.split("<h2 id='configuration'>Configuration</h2>")[1].split("</pre>")[0]

    class Plain(HTMLParser):
        text = ""

        def handle_data(self, data):
            self.text += data

    plain = Plain()
    plain.feed(source)
    assert plain.text.strip("\n") == TEXT.strip("\n")


def test_a_wrong_configuration_shows_its_errors(mezzo):
    done = mezzo("pretty", "-e", "Idle -> ;\nfoo <b> -> x")
    assert done.status == 1
    Balance(done.out)
    assert "syntax error at `;`" in done.out and "class='c-err'" in done.out
    wrong = mezzo("pretty", "-e", "q :: Queue; Idle -> q; q -> Tee -> Discard; q -> Discard")
    assert wrong.status == 1 and "<h2 id='elements'>" in wrong.out


def test_a_file_that_is_no_text_makes_a_page(mezzo, tmp_path):
    file = tmp_path / "x.click"
    file.write_bytes(b"Idle -> \0 \xff\x1b[2J")
    page = mezzo("pretty", str(file)).out
    Balance(page)
    assert "\0" not in page and "\x1b" not in page


def test_documentation_may_be_elsewhere(mezzo):
    page = mezzo("pretty", "-u", "https://x.example/%s.html", "-e", "Idle -> Discard").out
    assert "href='https://x.example/Idle.html'" in page


def test_large_graphs_have_no_picture(mezzo):
    page = mezzo("pretty", "-e", "Idle -> " + "Null -> " * 450 + "Discard").out
    assert "too many for a picture" in page and "<svg" not in page


@pytest.mark.parametrize(("form", "begin"), [("dot", "digraph"), ("gml", "graph ["), ("graphml", "<?xml")])
def test_forms_for_programs_that_draw(mezzo, form, begin):
    text = mezzo("pretty", f"--{form}", "-e", TEXT).out
    assert text.startswith(begin)
    if form == "graphml":
        ElementTree.fromstring(text.encode())


def test_marks_know_names_from_classes():
    found = [(m.kind, TEXT[m.begin : m.end]) for m in marks(TEXT)]
    assert ("comment", "// a router <b>") in found and ("comment", "/* over\ntwo lines */") in found
    assert ("keyword", "elementclass") in found and ("defined", "Out") in found
    assert ("declared", "c") in found and ("class", "Classifier") in found and ("config", "12/0800, -") in found
    assert ("port", "[0]") in found and ("name", "InfiniteSource") in found


ODD = ("", "(", "a :: B(", 'a :: B("', "/*", "# 1\n#", "a ::", "define(", "a // b", ")", "[", "$x", "\0\n#")


@pytest.mark.parametrize("text", ODD)
def test_marks_of_odd_texts_are_in_order_and_within(text):
    at = 0
    for mark in marks(text):
        assert at <= mark.begin <= mark.end <= len(text)
        at = mark.end
