"""The public JSON, versioned: fields are added, never renamed or removed."""
