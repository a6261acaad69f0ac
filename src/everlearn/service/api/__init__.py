"""What can be asked for over HTTP: routes, and what requests and answers look like."""
