"""The HTTP API: routes, and the models of requests and answers."""
