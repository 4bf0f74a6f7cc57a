"""What keeps the documents in order: references made from the program itself, and the site made from the documents."""
