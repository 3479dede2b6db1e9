"""The one place that speaks to the model: swaps the sandbox token for the real key, under a budget."""
