"""Issuewright: labeled issues become pull requests, with an agent that people can talk to on GitHub."""

__version__ = "0.1.0"
