"""What the engine costs beside the plain way of doing the same, measured in one process."""
