"""Compiled kernels for training and encoding, each with a plain reference: CPU by LLVM, GPU by Triton."""
