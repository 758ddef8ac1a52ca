"""Tests of the package `hasse`."""
