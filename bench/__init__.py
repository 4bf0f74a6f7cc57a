"""`python -m bench`: Recollect measured, and LanceDB on the same memories and questions in the same run."""
