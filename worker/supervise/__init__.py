"""What runs beside the steps: the sweep that needs no Redis, and the care for what was left behind."""
