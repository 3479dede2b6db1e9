"""GitHub: webhook payloads, the App's credentials, and the gateway that reads and writes. See `gateway`."""
