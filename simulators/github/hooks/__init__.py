"""Programs that git runs on a push. They see only their environment and standard input."""
