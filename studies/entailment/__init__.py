"""Textual entailment: may one sentence be inferred from another (Vendrov et al., section 5)?"""
