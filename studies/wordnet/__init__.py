"""WordNet on disk: synsets, base forms and parts of speech, and the phrases of a caption."""
