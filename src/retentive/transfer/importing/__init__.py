"""Files into the store: each thing once, noted before it is added, so that an import goes on and can be taken back."""
