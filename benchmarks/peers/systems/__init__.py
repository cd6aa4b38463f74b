"""One folder a system: ``system.toml`` (the facts), its pinned packages, ``produce`` and ``work``."""
