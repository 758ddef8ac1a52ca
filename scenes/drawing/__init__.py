"""Drawing: the shapes, figures and places that a scene is painted from."""
