"""What only some systems need."""
