"""What a caption encoder learns from texts without pictures, by a frozen sentence encoder."""
