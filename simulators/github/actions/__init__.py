"""What can be done on the simulated GitHub, whoever does it: each action changes state and sends its events."""
