"""Evaluation: ranking metrics, calibration, ground truth and intervals."""
