"""What runs inside a sandbox: the agent, its supervisor and its link to the app. Knows nothing of `app`."""
