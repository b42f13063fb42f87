"""Patients whom a hospital knows: their register, and what it says of them found in notes."""
