"""Inputs of a training on disk: features of frozen networks, and cached pixels."""
