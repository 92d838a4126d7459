"""Compare what several sessions did."""
