"""Adapters for other frameworks, one module for each. A module is loaded only when it is imported by name.

Every adapter works through a `ProfileView`, so it reads and changes the memories of one profile only.
"""
