"""Every store does what the port promises."""

from holdfast.testing.store_suite import *  # noqa: F403
