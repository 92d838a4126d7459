"""The public JSON. Stable and versioned: fields are added, never renamed or removed."""
