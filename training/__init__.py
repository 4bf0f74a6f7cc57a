"""Training of the models that Retentive ships. Nothing here is part of the product; see README.md."""
