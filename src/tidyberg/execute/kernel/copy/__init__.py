"""Copy mode: row groups move as bytes into new files, only the footer is written anew; nothing is decoded."""
