"""Moves memories in and out of stores: file formats, imports, exports, copies between stores, and watched folders."""
