"""What a training reads of pictures: features of frozen networks, and cached pixels, on disk."""
