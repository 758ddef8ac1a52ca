"""The catalog: the SQL database of images, captions, segments and the visible generation."""
