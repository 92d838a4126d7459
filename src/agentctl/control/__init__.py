"""Two modules that shims started before the packages moved name on their command lines. Kept for one
release."""
