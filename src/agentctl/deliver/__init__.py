"""Send events to webhooks and notifications to people."""
