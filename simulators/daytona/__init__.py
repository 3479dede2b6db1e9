"""A simulated Daytona: the API its SDK uses, with machines that really run commands."""
