"""Tasks on top of sentence embeddings: classification, relatedness, similarity of words."""
