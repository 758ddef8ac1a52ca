"""The web page: rendered on the server, complete without JavaScript, quicker with it."""
