"""Send events to webhooks and notifications to the user."""
