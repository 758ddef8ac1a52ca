"""Neural networks in ONNX's format, run without torch by OpenVINO or ONNX Runtime."""
