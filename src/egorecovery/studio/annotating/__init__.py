"""Browse and Annotate: a store's clips in the browser, one boundary per clip."""
