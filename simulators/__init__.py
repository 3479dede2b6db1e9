"""Stand-ins for the outside world (GitHub, the model), used by the demo and by tests, never by production code."""
