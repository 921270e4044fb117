"""How large an attack is."""

from conftest import EXAMPLES


def times(small: int) -> int:
    """How many rounds an attack takes: `small` of them, and more in a night's run."""
    return max(small, small * EXAMPLES // 8)
