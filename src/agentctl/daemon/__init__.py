"""The daemon: the process that watches sessions, fires fuses and sends deliveries. It owns no agent and
decides no status."""
