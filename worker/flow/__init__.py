"""The steps, one module each: `run(step)` does one idempotent thing and says when to look again."""
