"""Retentive inside other frameworks, one module each: nothing here is loaded unless it is asked for by name.

Every adapter works through `Confined`, so it reaches one profile and nothing else. Memory text is data wherever it
goes.
"""
