"""Where jobs are kept: one folder or file a database, all of them the same store."""
