"""Where execution logs lie, by URL, and what errors of that place mean."""
