"""Programs that attack a store or a service for a time and report what went wrong; `make attack` runs all of them."""
