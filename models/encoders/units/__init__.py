"""What reads the word vectors of a caption: GRU, LSTM in one or both directions, sum."""
