"""A stateful stand-in for github.com: REST, GraphQL, webhooks, git over HTTP, and pages for people."""
