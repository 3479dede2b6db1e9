"""What `make check` looks at beside ruff, mypy and import-linter: rules of this project that no tool knows."""
