"""One recipe per agent: `RECIPE`."""
