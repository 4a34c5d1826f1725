"""The console in a browser: the web server, its login, and a console process for each visitor."""
