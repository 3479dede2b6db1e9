"""A payload that does one named thing: packed in place of `sandbox_payload`, with the real forwarder beside it."""
