"""Sentences grounded in pictures: MNLM (Kiros et al.) and the Cap2* models (Kiela et al.)."""
