"""What sentence embeddings are good for: classification, relatedness, similarity of words."""
