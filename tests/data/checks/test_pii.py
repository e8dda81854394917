"""Personal data: found where it is, and only there."""

from ipaddress import IPv4Address
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.checks.iban import LENGTHS
from posttrain.data.checks.pii import MARKERS, Kind, marked, spans
from tests.data.checks.samples import checked, dataset, dialogue, removed

ALL: tuple[Kind, ...] = ("email", "ip", "iban", "phone")


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("write to anna.muster+x@uni-bern.ch.", "email", "anna.muster+x@uni-bern.ch"),
        ("<o'neil@mail.example-shop.co.uk>", "email", "o'neil@mail.example-shop.co.uk"),
        ("(a@b.ch)", "email", "a@b.ch"),
        ("a@b.ch@c.de", "email", "a@b.ch@c.de"),
        ("host 8.8.8.8:53", "ip", "8.8.8.8"),
        ("from 129.132.19.216.", "ip", "129.132.19.216"),
        ("at 2001:4860:4860::8888,", "ip", "2001:4860:4860::8888"),
        ("[2a02:1205:34c3::1]:80", "ip", "2a02:1205:34c3::1"),
        ("to CH93 0076 2011 6238 5295 7 please", "iban", "CH93 0076 2011 6238 5295 7"),
        ("DE89370400440532013000", "iban", "DE89370400440532013000"),
        ("GB29 NWBK 6016 1331 9268 19.", "iban", "GB29 NWBK 6016 1331 9268 19"),
        ("call +41 44 632 11 11 now", "phone", "+41 44 632 11 11"),
        ("+1 (212) 555-0100", "phone", "+1 (212) 555-0100"),
    ],
)
def test_what_belongs_to_a_person_is_found(text: str, kind: Kind, found: str) -> None:
    [span] = spans(text, ALL)
    assert (span.kind, text[span.start : span.end]) == (kind, found)


@pytest.mark.parametrize(
    "text",
    [
        "me@example.com and you@mail.example.org, root@localhost, a@host.test",
        "@handle, a @ b, x@y, foo@bar., @dataclass",
        "127.0.0.1, 10.0.0.1, 192.168.1.1, 172.16.0.9, 169.254.1.1, 0.0.0.0, 255.255.255.255",
        "192.0.2.1, 198.51.100.7, 203.0.113.9, 224.0.0.1",
        "256.1.1.1, 1.2.3, v8.8.8.8, 8.8.8.8.8, 08.08.08.08",
        "::1, fe80::1, fc00::1, 2001:db8::1, ff02::1, std::vector, 12:30:45, a::b, dead::beef",
        "CH93 0076 2011 6238 5295 8",
        "CH93 0076 2011 6238 5295",
        "XX93 0076 2011 6238 5295 7, DE12, AB12CDEF",
        "3 + 41 44 632, 0041446321111, x+41446321111, +0 12345678",
    ],
)
def test_what_belongs_to_nobody_is_not(text: str) -> None:
    assert spans(text, ALL) == []


@given(st.ip_addresses(v=4))
def test_public_addresses_alone_count(address: IPv4Address) -> None:
    public = address.is_global and not address.is_multicast
    assert bool(spans(f"at {address}, so", ("ip",))) == public


@given(st.sampled_from(sorted(LENGTHS)), st.data())
def test_an_account_number_counts_by_its_check_digits(country: str, data: st.DataObject) -> None:
    size = LENGTHS[country] - 4
    account = data.draw(st.text("0123456789ABCXYZ", min_size=size, max_size=size))
    digits = "".join(str(int(character, 36)) for character in f"{account}{country}00")
    check = 98 - int(digits) % 97
    number = f"{country}{check:02d}{account}"
    in_fours = " ".join(number[at : at + 4] for at in range(0, len(number), 4))
    for written in (number, in_fours):
        assert [written[s.start : s.end] for s in spans(written, ("iban",))] == [written]
    wrong = f"{country}{2 + (check - 1) % 97:02d}{account}"
    assert spans(wrong, ("iban",)) == []


@given(st.text(st.sampled_from("a@.:+1 8CHx-é\n"), max_size=60))
def test_marking_leaves_nothing_and_keeps_the_rest(text: str) -> None:
    found = spans(text, ALL)
    assert all(a.end <= b.start for a, b in pairwise(found))
    rest = text
    for span in reversed(found):
        rest = rest[: span.start] + MARKERS[span.kind] + rest[span.end :]
    assert marked(text, ALL) == rest


@pytest.mark.parametrize(
    "piece", ["a@", "1.", "1:", "a.", "CH12 ", "+1", "a@b.ch ", "1.1.1.1 ", "a@b.ch@"]
)
def test_long_texts_take_linear_time(piece: str) -> None:
    """In the time a test has: a pattern that tries again at each character would take minutes."""
    text = piece * 40_000
    assert bool(spans(text, ALL)) == ("b.ch" in piece or "1.1.1.1" in piece)


def test_rows_are_rewritten_and_the_report_quotes_nothing() -> None:
    rows: list[dict[str, Any]] = [
        dialogue("mail anna@uni-bern.ch", "from 8.8.8.8", id="1"),
        dialogue("no", "nothing", id="anna@uni-bern.ch"),
    ]
    rows[0]["messages"][1]["tool_calls"] = [{"name": "f", "arguments": {"to": ["b@c.ch", 7]}}]
    outcome = checked("pii", dataset(rows))
    first, second = outcome.kept(dataset(rows).rows())
    assert first.content["messages"][0]["content"] == "mail <email-pii>"
    assert first.content["messages"][1] == {
        "role": "assistant", "content": "from <ip-pii>",
        "tool_calls": [{"name": "f", "arguments": {"to": ["<email-pii>", 7]}}],
    }  # fmt: skip
    assert second.content == rows[1]
    assert outcome.report.reasons == {"email": 1, "ip": 1}
    assert outcome.report.figures == {"found.email": 2, "found.ip": 1, "found.iban": 0}
    assert "uni-bern" not in outcome.report.model_dump_json()
    again = checked("pii", dataset([dict(row.content) for row in (first, second)]))
    assert not again.report.reasons


def test_rows_may_go_instead() -> None:
    rows = [dialogue("mail a@b.ch", "ok"), dialogue("call +41 44 632 11 11", "ok")]
    asked = {"kinds": ["email", "phone"], "remove": ["email"], "replace": []}
    outcome = checked("pii", dataset(rows), **asked)
    assert removed(outcome) == [1]
    assert [row.content for row in outcome.kept(dataset(rows).rows())] == rows[1:]
