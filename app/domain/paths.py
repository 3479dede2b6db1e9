"""Paths of the web process that others are told."""

WEBHOOK_PATH = "/webhooks/github"
"""Where GitHub's deliveries arrive, below PUBLIC_URL."""
