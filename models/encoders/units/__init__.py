"""Text units, which read the word vectors of a caption: the GRU, and the registry of others."""
