"""Looking at what is on a server, and changing it on an operator's behalf."""
