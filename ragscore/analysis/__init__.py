"""Questions put to scores."""
