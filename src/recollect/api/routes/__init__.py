"""The service's addresses, one file a noun."""
