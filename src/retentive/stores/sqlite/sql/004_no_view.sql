-- Rows are gathered by one statement (see rows.py); nothing reads the view any more.
DROP VIEW memory_rows;
