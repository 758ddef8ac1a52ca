"""Evaluation: ranking metrics, calibration, ground truth, intervals and the length study."""
