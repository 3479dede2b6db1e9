"""GitHub's JSON for each kind of thing. Functions only read state."""
