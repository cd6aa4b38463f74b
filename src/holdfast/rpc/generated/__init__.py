"""Made by `make proto` from proto/*.proto; a test keeps the two equal. Not to be edited."""
