"""One adapter over a folder, memory and S3-compatible storage, all doing the same."""
