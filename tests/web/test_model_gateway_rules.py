"""Prices, meter and request rules on their own."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from app.domain.model_price import DEAREST, ModelPrice, Usage, cost_usd, price_of
from app.web.model_gateway.meter import Meter
from app.web.model_gateway.policy import NotAllowed, parse_request
from tests.web.gateway import END, START, TEXT, plain, sse

# ------------------------------------------------------------ prices and meter


def test_prices_then_known_dated_overridden_or_dearest():
    assert price_of("claude-opus-5-5", {}) == ModelPrice(4, 20, 0.4)
    assert price_of("claude-haiku-4-5-20251001", {}) == ModelPrice(1, 5, 0.1)
    assert price_of("claude-sonnet-4-5[1m]", {}) == ModelPrice(3, 15, 0.3)
    assert price_of("scripted", {}) == DEAREST
    assert price_of("scripted", {"scripted": ModelPrice(0, 0, 0)}) == ModelPrice(0, 0, 0)
    assert price_of("other", {"scripted": ModelPrice(100, 500, 1)}) == ModelPrice(100, 500, 1)


def test_cache_writes_cost_more_than_input_and_reads_less():
    price = ModelPrice(4, 20, 0.4)
    assert cost_usd(Usage(cache_write_5m=1_000_000), price) == 5
    assert cost_usd(Usage(cache_write_1h=1_000_000), price) == 8
    assert cost_usd(Usage(cache_read=1_000_000), price) == pytest.approx(0.4)


@hypothesis_settings(max_examples=50)
@given(cuts=st.lists(st.integers(0, 400), max_size=12))
def test_stream_cut_anywhere_then_metered_the_same(cuts):
    body = sse(START, TEXT, END).replace(b"\n", b"\r\n")
    meter = Meter(streamed=True)
    places = [0, *sorted(cuts), len(body)]
    for begin, end in itertools.pairwise(places):
        meter.feed(body[begin:end])
    assert meter.complete
    assert meter.usage == Usage(input=1000, output=500)


@hypothesis_settings(max_examples=50)
@given(body=st.binary(max_size=300), streamed=st.booleans())
def test_any_answer_then_the_meter_survives(body, streamed):
    meter = Meter(streamed=streamed)
    meter.feed(b"data: " + body + b"\n")
    meter.finish()


def test_cache_creation_split_then_each_at_its_price():
    meter = Meter(streamed=False)
    meter.feed(
        plain(
            input_tokens=1,
            output_tokens=2,
            cache_creation_input_tokens=30,
            cache_creation={"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
        )
    )
    meter.finish()
    assert meter.usage == Usage(input=1, output=2, cache_write_5m=10, cache_write_1h=20)


@hypothesis_settings(max_examples=50)
@given(
    value=st.recursive(
        st.none() | st.integers() | st.text(max_size=5) | st.sampled_from(["url", "file", "tool_result"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "source",
                        "content",
                        "role",
                        "tools",
                        "messages",
                        "system",
                        "model",
                        "max_tokens",
                    ]
                ),
                inner,
            )
        ),
        max_leaves=15,
    )
)
def test_any_request_then_allowed_or_refused(value):
    try:
        parse_request(json.dumps(value).encode(), ())
    except NotAllowed:
        pass
