"""The reference: what a store must do, in the plainest Python there is.

Written from the port's docstrings, not from the stores: it shares no decision with them (nothing
of ``core.decisions``, no ``judge``, no verb), only the vocabulary, the input checks and the digest. One dictionary of
mutable jobs, linear scans, no index, no I/O. The differential test drives it beside every store and compares.

``world``: what there is. ``moves``: how one job changes, and how an end spreads. Then one module for each group of
verbs.

Where commands overlap, or the clock goes back, a store may answer in more than one way. There the model follows it:
``holding`` says what somebody's open transaction keeps from others, and ``following`` which moves a tick may make.
"""

from holdfast.testing.model.model import Model

__all__ = ["Model"]
