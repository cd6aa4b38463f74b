"""The tests of Holdfast."""
