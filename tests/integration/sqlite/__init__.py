"""What only the SQLite store promises: one file, many processes, shared commits, full disks."""
