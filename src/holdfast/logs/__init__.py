"""Execution logs in object storage: what handlers said, an object an attempt. Never the truth."""

from holdfast.logs.objects import ObjectLogStore

__all__ = ["ObjectLogStore"]
