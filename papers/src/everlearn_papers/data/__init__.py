"""The data sets of the papers: locating, downloading and reading them."""
