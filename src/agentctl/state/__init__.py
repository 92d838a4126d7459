"""Our own database: one table a file, all SQL is here."""
