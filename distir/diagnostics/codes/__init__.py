"""Every code of every room, one file per hundred. A room imports the file it needs."""
