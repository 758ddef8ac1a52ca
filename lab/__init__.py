"""Trains and measures models; needs the extra `lab`. No package of the product imports it."""
