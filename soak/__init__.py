"""A queue under steady load for long: does anything grow, slow down or get lost?"""
