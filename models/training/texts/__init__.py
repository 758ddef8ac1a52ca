"""What a caption encoder learns from texts: of a sentence encoder, or by writing captions."""
