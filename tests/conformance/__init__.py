"""The suites of ``holdfast.testing`` on every implementation in this repository."""
