"""Losses: elements, margins, cross-entropy, CTC."""
