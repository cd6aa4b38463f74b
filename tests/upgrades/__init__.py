"""Databases that earlier versions wrote are upgraded, and their programs go on beside the new ones."""
