"""Counters of one web process, and what is read from the database when somebody asks."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    """One registry per app, so that several apps in one process (tests) don't share numbers."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.deliveries = self._counter("deliveries", "POSTs to the webhook by outcome.", "outcome")
        self.events = self._counter(
            "sandbox_events", "Events of sandboxes by outcome: new or repeated.", "outcome"
        )
        self.messages = self._counter("messages", "Messages by what happened to them.", "outcome")
        self.artifacts = self._counter("artifacts", "Uploads by outcome.", "outcome")
        self.model_calls = self._counter(
            "model_calls", "Requests to the model gateway by outcome.", "outcome"
        )
        self.model_tokens = self._counter("model_tokens", "Tokens that passed the gateway.", "kind")
        self.model_cost = self._counter("model_cost_usd", "What the gateway's calls cost, in USD.")
        self.throttled = self._counter("throttled", "Requests of sandboxes answered 429.", "what")
        self.proxy = self._counter(
            "proxy_connections", "CONNECT requests of sandboxes by outcome.", "outcome"
        )
        self.specs = Gauge(
            "issuewright_specs", "Specs by state, from the database.", ["state"], registry=self.registry
        )
        self.oldest_delivery_s = Gauge(
            "issuewright_oldest_unhandled_delivery_seconds",
            "Age of the oldest delivery nobody has dealt with; 0 when there is none.",
            registry=self.registry,
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"issuewright_{name}", text, labels, registry=self.registry)
