"""What calls are given: checks, and older forms."""
