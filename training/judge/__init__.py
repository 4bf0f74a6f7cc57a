"""Train the judge: a cross-encoder that reads a query with a memory and says whether the memory answers it or helps."""
