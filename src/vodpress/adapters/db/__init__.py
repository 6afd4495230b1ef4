"""PostgreSQL: the embedded server, the schema, and the unit of work."""
